import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.SubscribedTopicDescriberImpl;
import org.apache.kafka.coordinator.group.modern.TopicIds;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;

/**
 * Times the assignors of the broker on the groups of benchmarks/kafka_grid.py. A line of standard input is a group,
 * with an object `before` and one `now` (members, partitions of each topic); answered with the checksums of both
 * assignments. Or it is a number of calls; answered with the processor time of this thread that they take, in seconds.
 */
public class GridBenchmark {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private record Group(GroupSpecImpl spec, TopicIds.TopicResolver resolver, SubscribedTopicDescriberImpl describer) {
        GroupAssignment assign(PartitionAssignor assignor) {
            resolver.clear();
            return assignor.assign(spec, describer);
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        PartitionAssignor assignor = null;
        Group group = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = new ObjectMapper().readTree(line);
            if (asked.isInt()) {
                long start = THREADS.getCurrentThreadCpuTime();
                for (int call = 0; call < asked.asInt(); call++)
                    group.assign(assignor);
                System.out.println("{\"seconds\": " + (THREADS.getCurrentThreadCpuTime() - start) / 1e9 + "}");
                continue;
            }
            assignor = switch (asked.get("assignor").asText()) {
                case "RANGE" -> new RangeAssignor();
                case "UNIFORM" -> new UniformAssignor();
                default -> new SimpleAssignor();
            };
            List<Uuid> ids = new ArrayList<>();
            asked.get("ids").forEach(id -> ids.add(Uuid.fromString(id.asText())));
            GroupAssignment before = new GroupAssignment(Map.of());
            if (asked.has("before"))
                before = group(asked, ids, asked.get("before"), before).assign(assignor);
            group = group(asked, ids, asked.get("now"), before);
            System.out.println("{\"before\": " + checksum(before, ids)
                + ", \"now\": " + checksum(group.assign(assignor), ids) + "}");
        }
    }

    private static Group group(JsonNode asked, List<Uuid> ids, JsonNode state, GroupAssignment before) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        int racks = asked.get("racks").asInt();
        for (int broker = 0; broker < racks; broker++)
            delta.replay(new RegisterBrokerRecord().setBrokerId(broker).setRack("rack" + broker));
        for (int topic = 0; topic < ids.size(); topic++) {
            delta.replay(new TopicRecord().setTopicId(ids.get(topic)).setName("topic-" + topic));
            for (int at = 0; at < state.get("partitions").get(topic).asInt(); at++)
                delta.replay(new PartitionRecord().setTopicId(ids.get(topic)).setPartitionId(at)
                    .setReplicas(List.of(at % racks, (at + 1) % racks)));
        }
        var image = new KRaftCoordinatorMetadataImage(delta.apply(MetadataProvenance.EMPTY));
        TopicIds.TopicResolver resolver = new TopicIds.CachedTopicResolver(image);
        // The members of a bucket share a set of names, which saves gigabytes.
        List<Set<String>> buckets = new ArrayList<>();
        for (JsonNode bounds : asked.get("buckets")) {
            List<String> names = new ArrayList<>();
            for (int topic = bounds.get(0).asInt(); topic < bounds.get(1).asInt(); topic++)
                names.add("topic-" + topic);
            buckets.add(new HashSet<>(names));
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (int member = 0; member < state.get("members").asInt(); member++) {
            String id = "member" + member;
            Map<Uuid, Set<Integer>> owned = new HashMap<>();
            if (before.members().containsKey(id))
                before.members().get(id).partitions().forEach((topic, numbers) -> {
                    owned.put(topic, new HashSet<>(numbers));
                    numbers.forEach(at -> owners.computeIfAbsent(topic, any -> new HashMap<>()).put(at, id));
                });
            members.put(id, new MemberSubscriptionAndAssignmentImpl(
                asked.get("with_racks").asBoolean() ? Optional.of("rack" + member % racks) : Optional.empty(),
                Optional.empty(), new TopicIds(buckets.get(member % buckets.size()), resolver), new Assignment(owned)));
        }
        SubscriptionType type = SubscriptionType.valueOf(asked.get("type").asText());
        return new Group(new GroupSpecImpl(members, type, owners), resolver, new SubscribedTopicDescriberImpl(image));
    }

    private static long checksum(GroupAssignment answer, List<Uuid> ids) {
        Map<Uuid, Integer> number = new HashMap<>();
        ids.forEach(id -> number.put(id, number.size()));
        long sum = 0;
        for (var member : answer.members().entrySet())
            for (var topic : member.getValue().partitions().entrySet())
                for (int partition : topic.getValue()) {
                    long at = Long.parseLong(member.getKey().substring("member".length()));
                    at = (at * 1_000_003 + number.get(topic.getKey())) * 1_000_003 + partition;
                    sum += at * at >>> 20;
                }
        return sum;
    }
}
