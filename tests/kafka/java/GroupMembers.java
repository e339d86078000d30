import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Many real KafkaConsumers in one JVM: {@code java -cp <kafka jars> GroupMembers.java <bootstrap servers>}.
 *
 * Reads a member a line from standard input as JSON:
 * {"group", "client_id", "topics": [...] or "regex", "protocol"?: "classic|consumer", "assignor"?: class name
 * (several: with commas between them) or KIP-848 assignor, "instance_id"?, "rack"?, "auto_offset_reset"?,
 * "session_timeout_ms"?, "heartbeat_interval_ms"?, "follow"?: true}, then an empty line. Each member polls in its own
 * thread with all its partitions paused (offsets stay as they are) until standard input ends. After the empty line
 * there may come commands, a line each: {"start": a member as above} and {"leave": {"group", "client_id"}}.
 *
 * Each call of a member's rebalance listener is a line of JSON on standard output:
 * {"group", "client_id", "event": "assigned|revoked|lost", "partitions": [[topic, partition], ...], "at_ms",
 * "member_id", "generation_id"}. With "follow" there is such a line as well, with the event "generation" and what the
 * member owns, after each poll in which member id or generation changed, and one, "closed", when it has left.
 */
public class GroupMembers {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final List<KafkaConsumer<byte[], byte[]>> CONSUMERS = new ArrayList<>();
    private static final Map<String, KafkaConsumer<byte[], byte[]>> BY_NAME = new HashMap<>();
    private static final List<Thread> THREADS = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null && !line.isEmpty(); line = input.readLine()) {
            prepare(arguments[0], JSON.readTree(line));
        }
        THREADS.forEach(Thread::start);
        // Whoever started us holds our standard input open for as long as the members shall live.
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode command = JSON.readTree(line);
            if (command.has("start")) {
                prepare(arguments[0], command.get("start")).start();
            } else {
                BY_NAME.get(name(command.get("leave"))).wakeup();
            }
        }
        CONSUMERS.forEach(KafkaConsumer::wakeup);
        for (Thread thread : THREADS) {
            thread.join();
        }
    }

    private static Thread prepare(String bootstrapServers, JsonNode spec) {
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings(bootstrapServers, spec));
        Thread thread = new Thread(() -> poll(consumer, spec), name(spec));
        CONSUMERS.add(consumer);
        BY_NAME.put(name(spec), consumer);
        THREADS.add(thread);
        return thread;
    }

    private static String name(JsonNode spec) {
        return spec.get("group").asText() + " " + spec.get("client_id").asText();
    }

    private static void poll(KafkaConsumer<byte[], byte[]> consumer, JsonNode spec) {
        ConsumerRebalanceListener pausing = new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                tell(spec, "revoked", partitions, consumer.groupMetadata());
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                tell(spec, "lost", partitions, consumer.groupMetadata());
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                consumer.pause(partitions);
                tell(spec, "assigned", partitions, consumer.groupMetadata());
            }
        };
        boolean follow = spec.path("follow").asBoolean();
        ConsumerGroupMetadata known = consumer.groupMetadata();
        try (consumer) {
            if (!spec.has("regex")) {
                List<String> topics = new ArrayList<>();
                spec.get("topics").forEach(topic -> topics.add(topic.asText()));
                consumer.subscribe(topics, pausing);
            } else if (spec.path("protocol").asText().equals("consumer")) {
                consumer.subscribe(new SubscriptionPattern(spec.get("regex").asText()), pausing);
            } else {
                consumer.subscribe(Pattern.compile(spec.get("regex").asText()), pausing);
            }
            while (true) {
                consumer.poll(Duration.ofMillis(200));
                ConsumerGroupMetadata now = consumer.groupMetadata();
                if (follow && !now.equals(known)) {
                    tell(spec, "generation", consumer.assignment(), now);
                    known = now;
                }
            }
        } catch (WakeupException stop) {
            // the end that main() asked for
        }
        if (follow) {
            tell(spec, "closed", List.of(), known);
        }
    }

    private static synchronized void tell(
            JsonNode spec, String event, Collection<TopicPartition> partitions, ConsumerGroupMetadata member) {
        ObjectNode line = JSON.createObjectNode().put("event", event);
        line.set("group", spec.get("group"));
        line.set("client_id", spec.get("client_id"));
        ArrayNode pairs = line.putArray("partitions");
        partitions.forEach(tp -> pairs.addArray().add(tp.topic()).add(tp.partition()));
        line.put("at_ms", System.currentTimeMillis());
        line.put("member_id", member.memberId()).put("generation_id", member.generationId());
        System.out.println(line);
        System.out.flush();
    }

    private static Properties settings(String bootstrapServers, JsonNode spec) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrapServers);
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("enable.auto.commit", "false");
        settings.put("metadata.max.age.ms", "2000");
        settings.put("group.id", spec.get("group").asText());
        settings.put("client.id", spec.get("client_id").asText());
        settings.put("auto.offset.reset", spec.path("auto_offset_reset").asText("earliest"));
        copy(spec, "instance_id", settings, "group.instance.id");
        copy(spec, "rack", settings, "client.rack");
        copy(spec, "session_timeout_ms", settings, "session.timeout.ms");
        copy(spec, "heartbeat_interval_ms", settings, "heartbeat.interval.ms");
        String protocol = spec.path("protocol").asText("classic");
        settings.put("group.protocol", protocol);
        boolean classic = protocol.equals("classic");
        copy(spec, "assignor", settings, classic ? "partition.assignment.strategy" : "group.remote.assignor");
        return settings;
    }

    private static void copy(JsonNode spec, String field, Properties settings, String key) {
        if (spec.hasNonNull(field)) {
            settings.put(key, spec.get(field).asText());
        }
    }
}
