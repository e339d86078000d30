import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Commits of offsets in transactions: {@code java -cp <kafka jars> OffsetTransactions.java <bootstrap servers> <topic>
 * <group> <producers> <rounds> <open for ms>}.
 *
 * In each round every producer begins a transaction, sends an offset to it (the round's number, for the partition of its
 * own number), and ends it after a while: every other one is aborted. The metadata of the commit says which: "committed"
 * or "aborted".
 */
public class OffsetTransactions {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        String group = arguments[2];
        List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
        for (int number = 0; number < Integer.parseInt(arguments[3]); number++) {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", arguments[0]);
            settings.put("transactional.id", group + "-" + number);
            settings.put("key.serializer", ByteArraySerializer.class.getName());
            settings.put("value.serializer", ByteArraySerializer.class.getName());
            producers.add(new KafkaProducer<>(settings));
            producers.get(number).initTransactions();
        }
        for (int round = 0; round < Integer.parseInt(arguments[4]); round++) {
            for (int number = 0; number < producers.size(); number++) {
                String how = commits(round, number) ? "committed" : "aborted";
                producers.get(number).beginTransaction();
                producers.get(number).sendOffsetsToTransaction(
                    Map.of(new TopicPartition(topic, number), new OffsetAndMetadata(round, how)),
                    new ConsumerGroupMetadata(group));
            }
            Thread.sleep(Long.parseLong(arguments[5]));
            for (int number = 0; number < producers.size(); number++) {
                if (commits(round, number)) {
                    producers.get(number).commitTransaction();
                } else {
                    producers.get(number).abortTransaction();
                }
            }
        }
        producers.forEach(KafkaProducer::close);
    }

    private static boolean commits(int round, int number) {
        return (round + number) % 2 == 0;
    }
}
