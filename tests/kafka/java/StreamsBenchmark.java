import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

/**
 * Times the broker's assignor of Streams groups on the groups of Kafka's `StreamsStickyAssignorBenchmark`. A line of
 * standard input is a group: members, partitions, subtopologies, standbys, members of a process, FULL or INCREMENTAL;
 * answered with the checksums of the assignment before and now. Or it is a number of calls; answered with the processor
 * time of this thread that they take, in seconds.
 */
public class StreamsBenchmark {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private record Topology(List<String> subtopologies, int partitions) implements TopologyDescriber {
        @Override
        public int maxNumInputPartitions(String subtopology) throws NoSuchElementException {
            return partitions;
        }

        @Override
        public boolean isStateful(String subtopology) {
            return Integer.parseInt(subtopology.replaceAll("\\D", "")) % 2 == 0;
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StickyTaskAssignor assignor = new StickyTaskAssignor();
        GroupSpec group = null;
        TopologyDescriber topology = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words.length == 1) {
                long start = THREADS.getCurrentThreadCpuTime();
                for (int call = 0; call < Integer.parseInt(line); call++)
                    assignor.assign(group, topology);
                System.out.println("{\"seconds\": " + (THREADS.getCurrentThreadCpuTime() - start) / 1e9 + "}");
                continue;
            }
            Map<String, Boolean> ids = new TreeMap<>();
            for (int each = 0; each < Integer.parseInt(words[2]); each++)
                ids.put("topic" + each + "_subtopology", true);
            topology = new Topology(List.copyOf(ids.keySet()), Integer.parseInt(words[1]));
            boolean full = words[5].equals("FULL");
            int members = Integer.parseInt(words[0]) - (full ? 0 : 1);
            group = group(words, members, Map.of());
            GroupAssignment before = assignor.assign(group, topology);
            long first = full ? 0 : checksum(before, topology);
            if (!full)
                group = group(words, members, before.members());
            System.out.println("{\"before\": " + first + ", \"now\": "
                + checksum(assignor.assign(group, topology), topology) + "}");
        }
    }

    private static GroupSpec group(String[] words, int members, Map<String, MemberAssignment> before) {
        Map<String, MemberMetadataAndStateImpl> specs = new HashMap<>();
        for (int member = 0; member < members; member++) {
            String id = "member-" + member;
            MemberAssignment had = before.getOrDefault(id, new MemberAssignment(Map.of(), Map.of()));
            specs.put(id, member("process-" + member / Integer.parseInt(words[4]), had.activeTasks(), had.standbyTasks()));
        }
        if (!before.isEmpty())
            specs.put("newMember", member("process-newMember", Map.of(), Map.of()));
        return new GroupSpecImpl(specs, AssignmentConfigsImpl.fromMap(Map.of("num.standby.replicas", words[3])));
    }

    private static MemberMetadataAndStateImpl member(
        String process, Map<String, Set<Integer>> active, Map<String, Set<Integer>> standby
    ) {
        return new MemberMetadataAndStateImpl(Optional.empty(), Optional.empty(), process, Map.of(), active, standby,
            Map.of(), Map.of(), Map.of());
    }

    private static long checksum(GroupAssignment answer, TopologyDescriber topology) {
        long sum = 0;
        for (var entry : answer.members().entrySet()) {
            long member = entry.getKey().equals("newMember") ? -1 : Long.parseLong(entry.getKey().substring(7));
            for (int role = 0; role < 2; role++) {
                var tasks = role == 0 ? entry.getValue().activeTasks() : entry.getValue().standbyTasks();
                for (var some : tasks.entrySet())
                    for (int task : some.getValue()) {
                        long at = member * 2 + role;
                        at = (at * 1_000_003 + topology.subtopologies().indexOf(some.getKey())) * 1_000_003 + task;
                        sum += at * at >>> 20;
                    }
            }
        }
        return sum;
    }
}
