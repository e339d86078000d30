import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.admin.AdminUtils;
import org.apache.kafka.admin.BrokerMetadata;

/**
 * How fast Kafka's own placement is: a warm JVM, one thread, results dropped.
 *
 * <p>Arguments: brokers racks replicationFactor partitions repeats; racks 0 means that brokers have none. Prints a line
 * of JSON per repeat: {"partitions": placed, "seconds": elapsed}.
 */
public class AdminUtilsBenchmark {
    public static void main(String[] args) {
        int brokers = Integer.parseInt(args[0]);
        int racks = Integer.parseInt(args[1]);
        int replicationFactor = Integer.parseInt(args[2]);
        int partitions = Integer.parseInt(args[3]);
        int repeats = Integer.parseInt(args[4]);
        List<BrokerMetadata> metadata = new ArrayList<>();
        for (int id = 0; id < brokers; id++)
            metadata.add(new BrokerMetadata(id, racks == 0 ? Optional.empty() : Optional.of("rack" + id % racks)));
        for (int i = 0; i < 3; i++) // warm-up
            AdminUtils.assignReplicasToBrokers(metadata, partitions, replicationFactor, 5, 0);
        for (int i = 0; i < repeats; i++) {
            long start = System.nanoTime();
            int placed = AdminUtils.assignReplicasToBrokers(metadata, partitions, replicationFactor, 5, 0).size();
            double seconds = (System.nanoTime() - start) / 1e9;
            System.out.println("{\"partitions\": " + placed + ", \"seconds\": " + seconds + "}");
        }
    }
}
