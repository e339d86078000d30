import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Consumers with a rack, each alone in a group, read a topic. Arguments: bootstrap servers, topic, number of partitions, and
 * for each consumer its rack, which with "z." before it is its group, too.
 *
 * <p>Once all have read, and have gone on for a moment, prints {rack: {partition: preferred read replica}} on one line, -1
 * for the leader, as the consumers' metrics say. Goes on until stdin ends.
 */
public class NearReaders {
    private static final long SETTLED_MS = 3_000;

    public static void main(String[] args) throws Exception {
        String servers = args[0];
        String topic = args[1];
        int partitions = Integer.parseInt(args[2]);
        Map<String, Object> common = Map.of("bootstrap.servers", servers);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(common, new StringSerializer(), new StringSerializer())) {
            for (int partition = 0; partition < partitions; partition++)
                producer.send(new ProducerRecord<>(topic, partition, "key", "value")).get();
        }
        Map<String, KafkaConsumer<String, String>> consumers = new HashMap<>();
        for (String rack : List.of(args).subList(3, args.length)) {
            Map<String, Object> settings = new HashMap<>(common);
            settings.putAll(Map.of("group.id", "z." + rack, "client.id", "near-" + rack, "client.rack", rack));
            settings.put("auto.offset.reset", "earliest");
            KafkaConsumer<String, String> consumer =
                    new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(List.of(topic));
            consumers.put(rack, consumer);
        }
        Set<String> read = new HashSet<>();
        long since = Long.MAX_VALUE;
        boolean told = false;
        while (System.in.available() == 0) {
            for (Map.Entry<String, KafkaConsumer<String, String>> each : consumers.entrySet())
                for (ConsumerRecord<String, String> record : each.getValue().poll(Duration.ofMillis(50)))
                    read.add(each.getKey() + "/" + record.partition());
            if (read.size() == partitions * consumers.size() && since == Long.MAX_VALUE)
                since = System.currentTimeMillis();
            if (!told && since != Long.MAX_VALUE && System.currentTimeMillis() - since > SETTLED_MS) {
                told = true;
                System.out.println(replicas(consumers));
                System.out.flush();
            }
        }
        for (KafkaConsumer<String, String> consumer : new ArrayList<>(consumers.values()))
            consumer.close();
    }

    private static ObjectNode replicas(Map<String, KafkaConsumer<String, String>> consumers) {
        ObjectNode answer = new ObjectMapper().createObjectNode();
        consumers.forEach((rack, consumer) -> {
            ObjectNode mine = answer.putObject(rack);
            for (Map.Entry<MetricName, ? extends Metric> each : consumer.metrics().entrySet())
                if (each.getKey().name().equals("preferred-read-replica"))
                    mine.put(
                            each.getKey().tags().get("partition"),
                            ((Number) each.getValue().metricValue()).intValue());
        });
        return answer;
    }
}
