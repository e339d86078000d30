import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Asks the broker's own assignors (KIP-848), a group per line of standard input, in the format of
 * tests/golden/README-848.md; answers each with `expect` and `topic_iteration`. Members, topics and partitions are
 * handed over in the order in which the line has them.
 */
public class ServerAssignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    private static ObjectNode answer(JsonNode row) {
        Map<Uuid, Integer> partitions = new HashMap<>();
        row.get("topics").fields().forEachRemaining(
            topic -> partitions.put(Uuid.fromString(topic.getKey()), topic.getValue().get("partitions").asInt()));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (JsonNode member : row.get("members")) {
            read(member, members, owners);
        }
        SubscriptionType type = SubscriptionType.valueOf(row.get("subscription_type").asText());
        GroupSpec group = new GroupSpecImpl(members, type, owners);
        boolean uniform = row.get("system").asText().equals("uniform");
        ConsumerGroupPartitionAssignor assignor = uniform ? new UniformAssignor() : new RangeAssignor();
        Map<String, MemberAssignment> answer = assignor.assign(group, describer(partitions)).members();
        ObjectNode told = JSON.createObjectNode();
        ArrayNode walk = told.putArray("topic_iteration");
        Set<Uuid> first = members.values().iterator().next().subscribedTopicIds();
        new HashSet<>(first).forEach(topic -> walk.add(topic.toString()));
        ObjectNode expect = told.putObject("expect");
        answer.forEach((member, got) -> got.partitions().forEach((topic, numbers) -> {
            ArrayNode pair = expect.withArray("/" + member.replace("~", "~0").replace("/", "~1")).addArray();
            pair.add(topic.toString());
            numbers.forEach(pair.addArray()::add);
        }));
        return told;
    }

    private static void read(
        JsonNode member,
        Map<String, MemberSubscriptionAndAssignmentImpl> members,
        Map<Uuid, Map<Integer, String>> owners
    ) {
        String id = member.get("id").asText();
        Set<Uuid> topics = new LinkedHashSet<>();
        member.get("topics").forEach(topic -> topics.add(Uuid.fromString(topic.asText())));
        Map<Uuid, Set<Integer>> previous = new LinkedHashMap<>();
        for (JsonNode pair : member.get("previous")) {
            Uuid topic = Uuid.fromString(pair.get(0).asText());
            previous.computeIfAbsent(topic, any -> new LinkedHashSet<>()).add(pair.get(1).asInt());
            owners.computeIfAbsent(topic, any -> new HashMap<>()).put(pair.get(1).asInt(), id);
        }
        Optional<String> instance = Optional.ofNullable(member.get("instance").textValue());
        members.put(id, new MemberSubscriptionAndAssignmentImpl(
            Optional.empty(), instance, topics, new Assignment(previous)));
    }

    private static SubscribedTopicDescriber describer(Map<Uuid, Integer> partitions) {
        return new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return partitions.getOrDefault(topic, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
    }
}
