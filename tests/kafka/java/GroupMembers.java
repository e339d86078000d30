import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.regex.Pattern;
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
 * or KIP-848 assignor, "instance_id"?, "rack"?, "auto_offset_reset"?}, then an empty line. Each member polls in its
 * own thread with all its partitions paused (offsets stay as they are) until standard input ends.
 *
 * Each call of a member's rebalance listener is a line of JSON on standard output:
 * {"group", "client_id", "event": "assigned|revoked|lost", "partitions": [[topic, partition], ...]}.
 */
public class GroupMembers {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        List<KafkaConsumer<byte[], byte[]>> consumers = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (String line = input.readLine(); line != null && !line.isEmpty(); line = input.readLine()) {
            JsonNode spec = JSON.readTree(line);
            KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings(arguments[0], spec));
            consumers.add(consumer);
            threads.add(new Thread(() -> poll(consumer, spec), spec.get("client_id").asText()));
        }
        threads.forEach(Thread::start);
        while (input.readLine() != null) {
            // Whoever started us holds our standard input open for as long as the members shall live.
        }
        consumers.forEach(KafkaConsumer::wakeup);
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static void poll(KafkaConsumer<byte[], byte[]> consumer, JsonNode spec) {
        ConsumerRebalanceListener pausing = new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                tell(spec, "revoked", partitions);
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                tell(spec, "lost", partitions);
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                consumer.pause(partitions);
                tell(spec, "assigned", partitions);
            }
        };
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
            }
        } catch (WakeupException stop) {
            // the end that main() asked for
        }
    }

    private static synchronized void tell(JsonNode spec, String event, Collection<TopicPartition> partitions) {
        ObjectNode line = JSON.createObjectNode().put("event", event);
        line.set("group", spec.get("group"));
        line.set("client_id", spec.get("client_id"));
        ArrayNode pairs = line.putArray("partitions");
        partitions.forEach(tp -> pairs.addArray().add(tp.topic()).add(tp.partition()));
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
