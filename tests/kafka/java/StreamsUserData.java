import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo;
import org.apache.kafka.streams.state.HostInfo;

/**
 * What Kafka Streams writes into user data and reads from it, a JSON line each. {"subscription": base64} or {"assignment":
 * base64} is answered with what it says, or {"refused": why}; {"write": "subscription" or "assignment", ...fields} with
 * {"written": base64}.
 */
public class StreamsUserData {
    private static final JsonMapper JSON =
        JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();

    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode row = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            try {
                if (row.has("write"))
                    answer.put("written", text(row.get("write").asText().equals("subscription") ? said(row) : given(row)));
                else if (row.has("subscription"))
                    tell(SubscriptionInfo.decode(bytes(row.get("subscription"))), answer);
                else
                    tell(AssignmentInfo.decode(bytes(row.get("assignment"))), answer);
            } catch (RuntimeException refused) {
                answer.removeAll();
                answer.put("refused", refused.toString());
            }
            out.append(JSON.writeValueAsString(answer)).append('\n');
        }
        System.out.write(out.toString().getBytes(StandardCharsets.US_ASCII));
        System.out.flush();
    }

    private static void tell(SubscriptionInfo info, ObjectNode answer) {
        answer.put("version", info.version()).put("newest", info.latestSupportedVersion());
        answer.put("process", info.processId().toString()).put("end_point", info.userEndPoint()).put("error", info.errorCode());
        answer.set("active", tasks(info.prevTasks()));
        answer.set("standby", tasks(info.standbyTasks()));
        try {
            answer.set("tags", JSON.valueToTree(info.clientTags()));
        } catch (IllegalStateException twice) {
            answer.putNull("tags");
        }
    }

    private static void tell(AssignmentInfo info, ObjectNode answer) {
        answer.put("version", info.version()).put("newest", info.commonlySupportedVersion()).put("error", info.errCode());
        answer.put("next", info.nextRebalanceMs());
        answer.set("active", JSON.valueToTree(info.activeTasks().stream().map(TaskId::toString).collect(Collectors.toList())));
        answer.set("standby", tasks(info.standbyTasks().keySet()));
    }

    private static ByteBuffer said(JsonNode row) {
        Map<TaskId, Long> sums = new HashMap<>();
        for (JsonNode task : row.get("sums"))
            sums.put(task(task.get(0)), task.get(1).asLong());
        Map<String, String> tags = new LinkedHashMap<>();
        row.get("tags").fields().forEachRemaining(tag -> tags.put(tag.getKey(), tag.getValue().asText()));
        JsonNode endPoint = row.get("end_point");
        return new SubscriptionInfo(
            row.get("version").asInt(), row.get("newest").asInt(), new ProcessId(UUID.fromString(row.get("process").asText())),
            endPoint.isNull() ? null : endPoint.asText(), sums, (byte) 1, row.get("error").asInt(), tags).encode();
    }

    private static ByteBuffer given(JsonNode row) {
        List<TaskId> active = new ArrayList<>();
        row.get("active").forEach(task -> active.add(task(task)));
        Map<TaskId, Set<TopicPartition>> standby = new HashMap<>();
        for (JsonNode task : row.get("standby"))
            standby.put(task(task.get(0)), partitions(task.get(1)));
        AssignmentInfo info = new AssignmentInfo(
            row.get("version").asInt(), row.get("newest").asInt(), active, standby,
            hosts(row.get("hosts")), hosts(row.get("standby_hosts")), row.get("error").asInt());
        if (!row.get("next").isNull())
            info.setNextRebalanceTime(row.get("next").asLong());
        return info.encode();
    }

    private static Map<HostInfo, Set<TopicPartition>> hosts(JsonNode rows) {
        Map<HostInfo, Set<TopicPartition>> hosts = new HashMap<>();
        for (JsonNode row : rows)
            hosts.put(new HostInfo(row.get(0).asText(), 9092), partitions(row.get(1)));
        return hosts;
    }

    private static Set<TopicPartition> partitions(JsonNode rows) {
        Set<TopicPartition> partitions = new HashSet<>();
        for (JsonNode row : rows)
            partitions.add(new TopicPartition(row.get(0).asText(), row.get(1).asInt()));
        return partitions;
    }

    private static TaskId task(JsonNode row) {
        return new TaskId(row.get(0).asInt(), row.get(1).asInt(), row.get(2).isNull() ? null : row.get(2).asText());
    }

    private static JsonNode tasks(Collection<TaskId> tasks) {
        return JSON.valueToTree(tasks.stream().map(TaskId::toString).collect(Collectors.toCollection(TreeSet::new)));
    }

    private static ByteBuffer bytes(JsonNode text) {
        return ByteBuffer.wrap(Base64.getDecoder().decode(text.asText()));
    }

    private static String text(ByteBuffer bytes) {
        bytes.rewind();
        return Base64.getEncoder().encodeToString(Utils.toArray(bytes));
    }
}
