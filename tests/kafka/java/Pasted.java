import java.io.FileReader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/** One consumer with pasted settings: {@code Pasted <servers> <group> <topic> <file>}; it closes with its input. */
public class Pasted {
    private static volatile boolean running = true;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.load(new FileReader(arguments[3]));
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        for (String side : List.of("key", "value")) {
            settings.put(side + ".deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        }
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            Thread input = new Thread(Pasted::untilTheEnd);
            input.setDaemon(true);
            input.start();
            consumer.subscribe(List.of(arguments[2]));
            while (running) {
                consumer.poll(Duration.ofMillis(100));
            }
        }
    }

    private static void untilTheEnd() {
        try {
            while (System.in.read() >= 0) {
                // whoever started us holds it open
            }
        } catch (java.io.IOException gone) {
            // the same
        }
        running = false;
    }
}
