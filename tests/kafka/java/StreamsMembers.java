import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.LagInfo;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TaskMetadata;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.StandbyUpdateListener;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.TaskId;

/**
 * Instances of one or more Streams applications in one JVM, in streams groups (KIP-1071) or in classic ones:
 * {@code java -cp <jars with Streams> StreamsMembers.java <bootstrap servers>}.
 *
 * Reads an instance a line from standard input as JSON:
 * {"application_id", "client_id", "stateless": [topics], "stateful": [topics], "state_dir", "threads"?: 1,
 * "instance_id"?, "tags"?: {name: value}, "protocol"?: "streams|classic", "session_timeout_ms"?,
 * "settings"?: {name: value}, "restore_ms_per_record"?}, then an empty line. Of the topics of `stateless` every record is
 * dropped, of those of `stateful` every key is counted, each list in a subtopology of its own (an empty list has none).
 * With `restore_ms_per_record`, each batch of restored records waits for this time, and events are also printed when
 * changelogs are restored, and whether the instance has all state. After the empty line there may come commands, a line each: {"start": an instance as above}, {"leave": {"application_id",
 * "client_id"}}. Every thread of an instance is a member; an instance with a state_dir of its own is a process.
 *
 * Whenever the tasks of an instance have changed it says so on standard output: {"application_id", "client_id",
 * "event": "tasks", "state", "active": ["0_1", ...], "standby": [...], "threads": {name: [[active], [standby]]},
 * "caught_up", "at_ms"}; "closed", when it has left; and with `restore_ms_per_record` "restoring" and "restored" (of a
 * standby, after each batch), with "changelog_partition" and "role".
 */
public class StreamsMembers {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, KafkaStreams> RUNNING = new LinkedHashMap<>();
    private static final Map<String, JsonNode> SPECS = new LinkedHashMap<>();
    private static final Map<String, String> TOLD = new LinkedHashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        Thread telling = new Thread(StreamsMembers::tellForever);
        telling.setDaemon(true);
        telling.start();
        List<JsonNode> first = new ArrayList<>();
        for (String line = input.readLine(); line != null && !line.isEmpty(); line = input.readLine()) {
            first.add(JSON.readTree(line));
        }
        for (JsonNode spec : first) {
            start(arguments[0], spec);
        }
        // Whoever started us holds our standard input open for as long as the instances shall live.
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode command = JSON.readTree(line);
            if (command.has("start")) {
                start(arguments[0], command.get("start"));
            } else {
                leave(name(command.get("leave")));
            }
        }
        new ArrayList<>(RUNNING.keySet()).forEach(StreamsMembers::leave);
        System.exit(0);
    }

    private static String name(JsonNode spec) {
        return spec.get("application_id").asText() + " " + spec.get("client_id").asText();
    }

    private static synchronized void start(String bootstrapServers, JsonNode spec) {
        StreamsBuilder builder = new StreamsBuilder();
        if (!spec.path("stateless").isEmpty()) {
            builder.stream(topics(spec.get("stateless"))).foreach((key, value) -> { });
        }
        if (!spec.path("stateful").isEmpty()) {
            builder.stream(topics(spec.get("stateful"))).groupByKey().count(Materialized.as("counts"));
        }
        KafkaStreams streams = new KafkaStreams(builder.build(), settings(bootstrapServers, spec));
        RUNNING.put(name(spec), streams);
        SPECS.put(name(spec), spec);
        if (spec.has("restore_ms_per_record")) {
            Restores restores = new Restores(name(spec), spec.get("restore_ms_per_record").asLong());
            streams.setGlobalStateRestoreListener(restores);
            streams.setStandbyUpdateListener(restores);
        }
        streams.start();
    }

    /** Prints when restores of changelogs start and end, and pauses after each batch. */
    private record Restores(String name, long msPerRecord) implements StateRestoreListener, StandbyUpdateListener {
        private void print(String event, TopicPartition partition, String role) {
            ObjectNode line = line(name, event).put("changelog_partition", partition.partition()).put("role", role);
            System.out.println(line);
            System.out.flush();
        }

        private void pause(long records) {
            try {
                Thread.sleep(msPerRecord * records);
            } catch (InterruptedException end) {
                Thread.currentThread().interrupt();
            }
        }

        public void onRestoreStart(TopicPartition partition, String store, long start, long end) {
            print("restoring", partition, "active");
        }

        public void onBatchRestored(TopicPartition partition, String store, long end, long records) {
            pause(records);
        }

        public void onRestoreEnd(TopicPartition partition, String store, long records) {
            print("restored", partition, "active");
        }

        public void onUpdateStart(TopicPartition partition, String store, long start) {
            print("restoring", partition, "standby");
        }

        public void onBatchLoaded(
                TopicPartition partition, String store, TaskId task, long batchEnd, long records, long end) {
            pause(records);
            print("restored", partition, "standby");
        }

        public void onUpdateSuspended(
                TopicPartition partition, String store, long offset, long end, SuspendReason reason) {
        }
    }

    private static void leave(String name) {
        KafkaStreams streams;
        synchronized (StreamsMembers.class) {
            streams = RUNNING.remove(name);
        }
        streams.close(Duration.ofSeconds(10));
        ObjectNode line = line(name, "closed");
        System.out.println(line);
        System.out.flush();
    }

    private static List<String> topics(JsonNode names) {
        List<String> topics = new ArrayList<>();
        names.forEach(topic -> topics.add(topic.asText()));
        return topics;
    }

    private static void tellForever() {
        while (true) {
            synchronized (StreamsMembers.class) {
                RUNNING.forEach(StreamsMembers::tell);
            }
            try {
                Thread.sleep(100);
            } catch (InterruptedException end) {
                return;
            }
        }
    }

    private static void tell(String name, KafkaStreams streams) {
        Set<String> active = new TreeSet<>();
        Set<String> standby = new TreeSet<>();
        ObjectNode threads = JSON.createObjectNode();
        for (ThreadMetadata thread : streams.metadataForLocalThreads()) {
            ArrayNode tasks = threads.putArray(thread.threadName());
            addTasks(tasks.addArray(), active, thread.activeTasks());
            addTasks(tasks.addArray(), standby, thread.standbyTasks());
        }
        boolean caughtUp = SPECS.get(name).has("restore_ms_per_record") && isCaughtUp(streams);
        String now = streams.state() + " " + threads + " " + caughtUp;
        if (now.equals(TOLD.put(name, now))) {
            return;
        }
        ObjectNode line = line(name, "tasks").put("state", streams.state().toString());
        ArrayNode actives = line.putArray("active");
        active.forEach(actives::add);
        ArrayNode standbys = line.putArray("standby");
        standby.forEach(standbys::add);
        line.put("caught_up", caughtUp).set("threads", threads);
        System.out.println(line);
        System.out.flush();
    }

    private static void addTasks(ArrayNode to, Set<String> all, Set<TaskMetadata> tasks) {
        Set<String> names = new TreeSet<>();
        tasks.forEach(task -> names.add(task.taskId().toString()));
        names.forEach(to::add);
        all.addAll(names);
    }

    /** Whether no state of the instance has lag. */
    private static boolean isCaughtUp(KafkaStreams streams) {
        if (streams.state() != KafkaStreams.State.RUNNING) {
            return false;
        }
        try {
            return streams.allLocalStorePartitionLags().values().stream().flatMap(lags -> lags.values().stream())
                .mapToLong(LagInfo::offsetLag).sum() == 0;
        } catch (RuntimeException error) {
            return false;
        }
    }

    private static ObjectNode line(String name, String event) {
        ObjectNode line = JSON.createObjectNode().put("event", event);
        line.set("application_id", SPECS.get(name).get("application_id"));
        line.set("client_id", SPECS.get(name).get("client_id"));
        return line.put("at_ms", System.currentTimeMillis());
    }

    private static Properties settings(String bootstrapServers, JsonNode spec) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrapServers);
        settings.put("group.protocol", spec.path("protocol").asText("streams"));
        settings.put("application.id", spec.get("application_id").asText());
        settings.put("client.id", spec.get("client_id").asText());
        settings.put("state.dir", spec.get("state_dir").asText());
        settings.put("num.stream.threads", spec.path("threads").asText("1"));
        settings.put("default.key.serde", Serdes.ByteArraySerde.class.getName());
        settings.put("default.value.serde", Serdes.ByteArraySerde.class.getName());
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("commit.interval.ms", "200");
        settings.put("metadata.max.age.ms", "2000");
        if (spec.hasNonNull("instance_id")) {
            settings.put("group.instance.id", spec.get("instance_id").asText());
        }
        if (spec.hasNonNull("session_timeout_ms")) {
            settings.put("session.timeout.ms", spec.get("session_timeout_ms").asText());
        }
        spec.path("tags").fieldNames().forEachRemaining(
            tag -> settings.put("client.tag." + tag, spec.get("tags").get(tag).asText()));
        spec.path("settings").fieldNames().forEachRemaining(
            name -> settings.put(name, spec.get("settings").get(name).asText()));
        return settings;
    }
}
