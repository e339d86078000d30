import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
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
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.TopologyMetadata.Subtopology;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;
import org.apache.kafka.streams.processor.internals.assignment.HighAvailabilityTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.RackAwareTaskAssignor;

/**
 * Asks HighAvailabilityTaskAssignor, an application per line of standard input, in the format of
 * tests/golden/README-streams-classic.md; answers each with the `clients` and `probing` of `expect`. Racks of changelogs
 * aren't read, so that an application with racks must have no standbys. An application with `calls` is assigned that often;
 * the answer has the processor time of this thread in each call, in `seconds`.
 */
public class StreamsTaskAssignor {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode row = JSON.readTree(line);
            List<Double> seconds = new ArrayList<>();
            ObjectNode answer = answer(row, seconds);
            for (int call = 1; call < row.path("calls").asInt(1); call++) {
                answer = answer(row, seconds);
            }
            seconds.forEach(answer.putArray("seconds")::add);
            System.out.println(JSON.writeValueAsString(answer));
            System.out.flush();
        }
    }

    private static ObjectNode answer(JsonNode row, List<Double> seconds) {
        JsonNode topics = row.get("topics"), changelogs = row.get("changelogs"), config = row.get("config");
        Map<TaskId, Set<TopicPartition>> partitions = new HashMap<>();
        Map<TopicPartition, TaskId> taskOf = new HashMap<>();
        Map<TaskId, Long> ends = new HashMap<>();
        Map<Subtopology, Set<TaskId>> groups = new HashMap<>();
        for (JsonNode subtopology : row.get("subtopologies")) {
            int id = subtopology.get("id").asInt();
            for (JsonNode source : subtopology.get("sources")) {
                for (int at = 0; at < topics.get(source.asText()).get("partitions").asInt(); at++) {
                    TaskId task = new TaskId(id, at);
                    TopicPartition partition = new TopicPartition(source.asText(), at);
                    partitions.computeIfAbsent(task, any -> new HashSet<>()).add(partition);
                    taskOf.put(partition, task);
                    groups.computeIfAbsent(new Subtopology(id, null), any -> new HashSet<>()).add(task);
                }
            }
            for (JsonNode store : subtopology.get("stores")) {
                for (TaskId task : partitions.keySet()) {
                    if (task.subtopology() == id) {
                        JsonNode of = changelogs.get(store.get("changelog").asText()).get("end_offsets");
                        ends.merge(task, of.get(task.partition()).asLong(), Long::sum);
                    }
                }
            }
        }
        Map<ProcessId, ClientState> clients = new HashMap<>();
        Map<ProcessId, Map<String, Optional<String>>> racks = new HashMap<>();
        for (JsonNode member : row.get("members")) {
            ProcessId process = new ProcessId(UUID.fromString(member.get("process").asText()));
            Map<String, String> tags = new HashMap<>();
            member.get("tags").fields().forEachRemaining(tag -> tags.put(tag.getKey(), tag.getValue().asText()));
            ClientState client = clients.computeIfAbsent(process, any -> new ClientState(process, tags));
            String id = member.get("id").asText();
            client.incrementCapacity();
            List<TopicPartition> owned = new ArrayList<>();
            member.get("owned").forEach(of -> owned.add(new TopicPartition(of.get(0).asText(), of.get(1).asInt())));
            client.addOwnedPartitions(owned, id);
            Map<TaskId, Long> sums = new HashMap<>();
            member.get("task_offset_sums").fields().forEachRemaining(
                of -> sums.put(TaskId.parse(of.getKey()), of.getValue().asLong()));
            client.addPreviousTasksAndOffsetSums(id, sums);
            String rack = member.get("rack").asText(null);
            racks.computeIfAbsent(process, any -> new HashMap<>()).put(id, Optional.ofNullable(rack));
        }
        clients.forEach((process, client) -> {
            client.initializePrevTasks(taskOf, false);
            client.computeTaskLags(process, ends);
        });
        List<String> tags = new ArrayList<>();
        config.get("rack_aware_tags").forEach(tag -> tags.add(tag.asText()));
        AssignmentConfigs configs = new AssignmentConfigs(config.get("acceptable_recovery_lag").asLong(),
            config.get("max_warmup_replicas").asInt(), config.get("num_standby_replicas").asInt(), 600_000L, tags,
            cost(config.get("traffic_cost")), cost(config.get("non_overlap_cost")),
            config.get("rack_aware_strategy").asText());
        RackAwareTaskAssignor byRack = new RackAwareTaskAssignor(cluster(topics), partitions, Map.of(), groups, racks,
            null, configs, Time.SYSTEM);
        long start = THREADS.getCurrentThreadCpuTime();
        boolean probing = new HighAvailabilityTaskAssignor().assign(clients, partitions.keySet(), ends.keySet(), byRack,
            configs);
        seconds.add((THREADS.getCurrentThreadCpuTime() - start) / 1e9);
        ObjectNode told = JSON.createObjectNode();
        ObjectNode expect = told.putObject("expect").put("probing", probing).putObject("clients");
        clients.forEach((process, client) -> {
            ObjectNode got = expect.putObject(process.id().toString());
            add(got.putArray("active"), client.activeTasks());
            add(got.putArray("standby"), client.standbyTasks());
        });
        return told;
    }

    private static OptionalInt cost(JsonNode cost) {
        return cost.isNull() ? OptionalInt.empty() : OptionalInt.of(cost.asInt());
    }

    private static void add(ArrayNode names, Set<TaskId> tasks) {
        new TreeSet<>(tasks).forEach(task -> names.add(task.toString()));
    }

    /** A broker for each rack. */
    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> brokers = new HashMap<>();
        List<PartitionInfo> infos = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            for (int at = 0; at < topic.getValue().get("partitions").asInt(); at++) {
                List<Node> replicas = new ArrayList<>();
                topic.getValue().get("racks").get(at).forEach(rack -> replicas.add(brokers.computeIfAbsent(
                    rack.asText(null), name -> new Node(brokers.size(), "host", 9092, name))));
                Node[] nodes = replicas.toArray(new Node[0]);
                infos.add(new PartitionInfo(topic.getKey(), at, nodes[0], nodes, nodes));
            }
        });
        return new Cluster("cluster", brokers.values(), infos, Set.of(), Set.of());
    }
}
