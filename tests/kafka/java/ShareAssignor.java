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
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Asks the broker's own assignor of share groups (KIP-932), a group per line of standard input, in the format of
 * tests/golden/README-848.md; answers each with `expect`, or with `error`. Members, topics and partitions are handed over
 * in the order in which the line has them.
 *
 * `next` is what each member begins the next round with, in the order in which the broker then has it: a member's map of
 * topics and its sets of partitions, written as a record and read back, unless nothing has changed.
 */
public class ShareAssignor {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Topics that there are, of a member that may subscribe to other names besides. */
    private static class Topics extends LinkedHashSet<Uuid> {
        int unresolved = 0;

        @Override
        public boolean isEmpty() {
            return unresolved == 0 && super.isEmpty();
        }
    }

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
        Map<String, Map<Uuid, Set<Integer>>> had = new HashMap<>();
        row.get("members").forEach(member -> read(member, members, had));
        SubscriptionType type = SubscriptionType.valueOf(row.get("subscription_type").asText());
        GroupSpecImpl group = new GroupSpecImpl(members, type, Map.of(), assignable(row));
        ObjectNode told = JSON.createObjectNode();
        try {
            Map<String, MemberAssignment> answer = new SimpleAssignor().assign(group, describer(partitions)).members();
            told.putNull("error");
            tell(answer, had, told.putObject("expect"), told.putObject("next"));
        } catch (RuntimeException error) {
            told.putObject("error").put("class", error.getClass().getSimpleName()).put("message", error.getMessage());
        }
        return told;
    }

    private static Optional<Map<Uuid, Set<Integer>>> assignable(JsonNode row) {
        if (!row.has("assignable")) {
            return Optional.empty();
        }
        Map<Uuid, Set<Integer>> assignable = new HashMap<>();
        row.get("assignable").fields().forEachRemaining(topic -> {
            Set<Integer> some = assignable.computeIfAbsent(Uuid.fromString(topic.getKey()), any -> new HashSet<>());
            topic.getValue().forEach(partition -> some.add(partition.asInt()));
        });
        return Optional.of(assignable);
    }

    private static void read(
        JsonNode member,
        Map<String, MemberSubscriptionAndAssignmentImpl> members,
        Map<String, Map<Uuid, Set<Integer>>> had
    ) {
        String id = member.get("id").asText();
        Topics topics = new Topics();
        member.get("topics").forEach(topic -> topics.add(Uuid.fromString(topic.asText())));
        topics.unresolved = member.path("unresolved").asInt(0);
        Map<Uuid, Set<Integer>> previous = new LinkedHashMap<>();
        for (JsonNode pair : member.get("previous")) {
            Uuid topic = Uuid.fromString(pair.get(0).asText());
            previous.computeIfAbsent(topic, any -> new LinkedHashSet<>()).add(pair.get(1).asInt());
        }
        member.path("previous_empty").forEach(
            topic -> previous.put(Uuid.fromString(topic.asText()), new LinkedHashSet<>()));
        Optional<String> none = Optional.empty();
        members.put(id, new MemberSubscriptionAndAssignmentImpl(none, none, topics, new Assignment(previous)));
        had.put(id, previous);
    }

    private static void tell(
        Map<String, MemberAssignment> answer,
        Map<String, Map<Uuid, Set<Integer>>> had,
        ObjectNode expect,
        ObjectNode next
    ) {
        had.forEach((member, before) -> {
            Map<Uuid, Set<Integer>> got =
                answer.containsKey(member) ? answer.get(member).partitions() : new HashMap<>();
            Map<Uuid, Set<Integer>> read = new HashMap<>();
            got.forEach((topic, numbers) -> read.put(topic, new HashSet<>(numbers)));
            write(new TreeMap<>(got), expect.putArray(member), true);
            write(got.equals(before) ? before : read, next.putArray(member), false);
        });
    }

    private static void write(Map<Uuid, Set<Integer>> got, ArrayNode into, boolean sorted) {
        got.forEach((topic, numbers) -> {
            ArrayNode pair = into.addArray();
            pair.add(topic.toString());
            (sorted ? new TreeSet<>(numbers) : numbers).forEach(pair.addArray()::add);
        });
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
