import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.MemberState;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.coordinator.group.modern.consumer.CurrentAssignmentBuilder;

/**
 * Asks CurrentAssignmentBuilder of Kafka 4.0 and 4.1, a member per line of standard input. Partitions are pairs of a
 * topic's number and a partition. Answers the member after its heartbeat.
 */
public class CurrentAssignments {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    private static ObjectNode answer(JsonNode row) {
        ConsumerGroupMember member = new ConsumerGroupMember.Builder("member")
            .setState(MemberState.valueOf(row.get("state").asText()))
            .setMemberEpoch(row.get("epoch").asInt())
            .setPreviousMemberEpoch(row.get("previous_epoch").asInt())
            .setAssignedPartitions(partitions(row.get("assigned")))
            .setPartitionsPendingRevocation(partitions(row.get("pending")))
            .build();
        Map<Uuid, Set<Integer>> unreleased = partitions(row.get("unreleased"));
        List<ConsumerGroupHeartbeatRequestData.TopicPartitions> owned = null;
        if (!row.get("owned").isNull()) {
            owned = new ArrayList<>();
            for (Map.Entry<Uuid, Set<Integer>> entry : partitions(row.get("owned")).entrySet()) {
                owned.add(new ConsumerGroupHeartbeatRequestData.TopicPartitions()
                    .setTopicId(entry.getKey()).setPartitions(new ArrayList<>(entry.getValue())));
            }
        }
        ConsumerGroupMember after = new CurrentAssignmentBuilder(member)
            .withTargetAssignment(row.get("target_epoch").asInt(), new Assignment(partitions(row.get("target"))))
            .withCurrentPartitionEpoch((topic, partition) ->
                unreleased.getOrDefault(topic, Set.of()).contains(partition) ? 1 : -1)
            .withOwnedTopicPartitions(owned)
            .build();
        ObjectNode answer = JSON.createObjectNode();
        ObjectNode expect = answer.putObject("expect");
        expect.put("state", after.state().toString().toUpperCase(java.util.Locale.ROOT));
        expect.put("epoch", after.memberEpoch());
        expect.put("previous_epoch", after.previousMemberEpoch());
        write(expect.putArray("assigned"), after.assignedPartitions());
        write(expect.putArray("pending"), after.partitionsPendingRevocation());
        return answer;
    }

    private static Map<Uuid, Set<Integer>> partitions(JsonNode pairs) {
        Map<Uuid, Set<Integer>> found = new HashMap<>();
        for (JsonNode pair : pairs) {
            found.computeIfAbsent(new Uuid(1L, pair.get(0).asLong()), any -> new HashSet<>()).add(pair.get(1).asInt());
        }
        return found;
    }

    private static void write(ArrayNode pairs, Map<Uuid, Set<Integer>> partitions) {
        TreeSet<String> keys = new TreeSet<>();
        partitions.forEach((topic, numbers) -> numbers.forEach(number ->
            keys.add(String.format("%05d %05d", topic.getLeastSignificantBits(), number))));
        for (String key : keys) {
            String[] pair = key.split(" ");
            pairs.addArray().add(Integer.parseInt(pair[0])).add(Integer.parseInt(pair[1]));
        }
    }
}
