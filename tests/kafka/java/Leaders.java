import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/**
 * Groups of Java consumers of any release since 2.4: {@code java -cp <clients jars> Leaders.java <bootstrap servers>}.
 *
 * Reads a member a line, tab between its fields: group, topic, assignor, client id (none: the library's own), then an
 * empty line. All poll until standard input ends; a fetch waits for 10 seconds, so that idle members cost little.
 */
public class Leaders {
    private static volatile boolean running = true;

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null && !line.isEmpty(); line = input.readLine()) {
            String[] fields = line.split("\t", -1);
            Properties settings = new Properties();
            settings.put("bootstrap.servers", arguments[0]);
            settings.put("group.id", fields[0]);
            settings.put("fetch.max.wait.ms", 10_000);
            settings.put("partition.assignment.strategy", assignor(fields[2]));
            if (!fields[3].isEmpty()) {
                settings.put("client.id", fields[3]);
            }
            for (String side : List.of("key", "value")) {
                settings.put(side + ".deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
            }
            new Thread(() -> consume(settings, fields[1])).start();
        }
        while (input.read() >= 0) {
            // whoever started us holds it open
        }
        running = false;
    }

    private static String assignor(String name) {
        StringBuilder words = new StringBuilder("org.apache.kafka.clients.consumer.");
        String known = name.equals("roundrobin") ? "round-robin" : name;
        for (String word : known.split("-")) {
            words.append(Character.toUpperCase(word.charAt(0))).append(word.substring(1));
        }
        return words.append("Assignor").toString();
    }

    private static void consume(Properties settings, String topic) {
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(Arrays.asList(topic));
            while (running) {
                consumer.poll(Duration.ofMillis(200));
            }
        }
    }
}
