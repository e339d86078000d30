import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Times the broker's uniform assignor (KIP-848) on one group whose members all subscribe to the same topics:
 * MEMBERS TOPICS PARTITIONS. Each line of standard input names what members have: `nothing`, `steady` (an even share
 * each, in one piece) or `gone` (the same, but one member has left and its share is free). Answers a line of JSON:
 * seconds, and a checksum over member, topic (by its place in the walk of a fresh hash set) and partition.
 */
public class ServerAssignorsBenchmark {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    public static void main(String[] args) throws IOException {
        int members = Integer.parseInt(args[0]), topics = Integer.parseInt(args[1]), partitions = Integer.parseInt(args[2]);
        Set<Uuid> ids = new LinkedHashSet<>();
        for (int topic = 0; topic < topics; topic++)
            ids.add(new Uuid(topic * 0x9E3779B97F4A7C15L, topic + 1));
        List<Uuid> walk = new ArrayList<>(new HashSet<>(ids));
        Map<String, GroupSpec> groups = new HashMap<>();
        for (String name : List.of("nothing", "steady", "gone"))
            groups.put(name, group(name, members, walk, ids, partitions));
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return partitions;
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            UniformAssignor assignor = new UniformAssignor();
            long start = THREADS.getCurrentThreadCpuTime();
            GroupAssignment answer = assignor.assign(groups.get(line), describer);
            double seconds = (THREADS.getCurrentThreadCpuTime() - start) / 1e9;
            System.out.println("{\"seconds\": " + seconds + ", \"checksum\": " + checksum(answer, walk) + "}");
        }
    }

    private static GroupSpec group(String name, int members, List<Uuid> walk, Set<Uuid> ids, int partitions) {
        Map<String, MemberSubscriptionAndAssignmentImpl> byId = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        int share = walk.size() * partitions / members;
        for (int member = 0; member < members; member++) {
            if (name.equals("gone") && member == members / 2)
                continue;
            Map<Uuid, Set<Integer>> previous = new HashMap<>();
            String id = Integer.toString(member);
            for (int at = member * share; at < (member + 1) * share && !name.equals("nothing"); at++) {
                Uuid topic = walk.get(at / partitions);
                previous.computeIfAbsent(topic, any -> new HashSet<>()).add(at % partitions);
                owners.computeIfAbsent(topic, any -> new HashMap<>()).put(at % partitions, id);
            }
            byId.put(id, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.empty(), ids, new Assignment(previous)));
        }
        return new GroupSpecImpl(byId, SubscriptionType.HOMOGENEOUS, owners);
    }

    private static long checksum(GroupAssignment answer, List<Uuid> walk) {
        Map<Uuid, Long> place = new HashMap<>();
        for (Uuid topic : walk)
            place.put(topic, (long) place.size());
        long sum = 0;
        for (var member : answer.members().entrySet())
            for (var topic : member.getValue().partitions().entrySet())
                for (int partition : topic.getValue()) {
                    long at = (Long.parseLong(member.getKey()) * 1_000_003 + place.get(topic.getKey())) * 1_000_003 + partition;
                    sum += at * at >>> 20;
                }
        return sum;
    }
}
