import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
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
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * KafkaConsumers of any release from 2.5 on in one JVM: {@code java -cp <clients> OldConsumers.java <bootstrap servers>}.
 *
 * <p>Reads lines of JSON: {"start": a member as GroupMembers.java has it} and {"leave": {"group", "client_id"}}, as close()
 * does. At the end of the input all leave. Writes a line of JSON each time a member is told its part:
 * {"group", "client_id", "event": "assigned", "generation_id"}.
 */
public class OldConsumers {
    private static final Map<String, Member> MEMBERS = new HashMap<>();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        ObjectMapper json = new ObjectMapper();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.isEmpty()) {
                continue;
            }
            JsonNode order = json.readTree(line);
            if (order.has("start")) {
                Member member = new Member(args[0], order.get("start"));
                MEMBERS.put(key(order.get("start")), member);
                member.start();
            } else {
                Member member = MEMBERS.remove(key(order.get("leave")));
                member.leaves = true;
                member.join();
            }
        }
        MEMBERS.values().forEach(member -> member.leaves = true);
        for (Member member : MEMBERS.values()) {
            member.join();
        }
    }

    private static String key(JsonNode spec) {
        return spec.get("group").asText() + " " + spec.get("client_id").asText();
    }

    private static final class Member extends Thread implements ConsumerRebalanceListener {
        private final JsonNode spec;
        private final KafkaConsumer<byte[], byte[]> consumer;
        private volatile boolean leaves;

        Member(String bootstrapServers, JsonNode spec) {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", bootstrapServers);
            settings.put("group.id", spec.get("group").asText());
            settings.put("client.id", spec.get("client_id").asText());
            settings.put("heartbeat.interval.ms", "500");
            // Before 3.0 it was 10 s, which may pass on a busy machine.
            settings.put("session.timeout.ms", "45000");
            settings.put("enable.auto.commit", "false");
            settings.put("partition.assignment.strategy", spec.get("assignor").asText());
            if (spec.has("instance_id")) {
                settings.put("group.instance.id", spec.get("instance_id").asText());
            }
            consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            List<String> topics = new ArrayList<>();
            spec.get("topics").forEach(topic -> topics.add(topic.asText()));
            consumer.subscribe(topics, this);
            this.spec = spec;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            ObjectNode line = JsonNodeFactory.instance.objectNode().put("event", "assigned");
            line.set("group", spec.get("group"));
            line.set("client_id", spec.get("client_id"));
            line.put("generation_id", consumer.groupMetadata().generationId());
            synchronized (OldConsumers.class) {
                System.out.println(line);
                System.out.flush();
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            try {
                Thread.sleep(spec.path("revoking_ms").asLong());
            } catch (InterruptedException stop) {
                interrupt();
            }
        }

        @Override
        public void run() {
            while (!leaves) {
                consumer.poll(Duration.ofMillis(200));
            }
            consumer.close(Duration.ofSeconds(5));
        }
    }
}
