import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;

/**
 * How fast Kafka's own assignors are: a warm JVM, everything they read prebuilt in memory, results dropped.
 *
 * <p>Arguments: strategy groups members topics partitions clusters threads repeats seconds. Prints a line of JSON
 * per repeat: {"partitions": assigned, "seconds": elapsed}. A repeat ends when all groups are planned, or, between
 * groups, once it has taken so many seconds. Groups share as many sets of topics as there are clusters: as many as
 * groups gives every group its own metadata, as in a fleet; few keep it all in the processor's cache.
 */
public class AssignorsBenchmark {
    public static void main(String[] args) throws Exception {
        String strategy = args[0];
        int[] n = Arrays.stream(args).skip(1).mapToInt(Integer::parseInt).toArray();
        int groups = n[0], members = n[1], topics = n[2], partitions = n[3], threads = n[5], repeats = n[6];
        long nanos = n[7] * 1_000_000_000L;
        List<Cluster> clusters = new ArrayList<>();
        for (int c = 0; c < n[4]; c++)
            clusters.add(cluster(c, topics, partitions));
        List<GroupSubscription> subscriptions = new ArrayList<>();
        for (int g = 0; g < groups; g++)
            subscriptions.add(group(g, g % n[4], members, topics));
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        run(pool, threads, strategy, clusters, subscriptions, nanos / 2); // warm-up
        for (int i = 0; i < repeats; i++)
            System.out.println(run(pool, threads, strategy, clusters, subscriptions, nanos));
        pool.shutdown();
    }

    private static String run(ExecutorService pool, int threads, String strategy, List<Cluster> clusters,
                              List<GroupSubscription> subscriptions, long nanos) throws Exception {
        AtomicInteger next = new AtomicInteger();
        AtomicLong assigned = new AtomicLong();
        long start = System.nanoTime();
        List<Future<?>> running = new ArrayList<>();
        for (int t = 0; t < threads; t++) {
            running.add(pool.submit(() -> {
                int g = next.getAndIncrement();
                while (g < subscriptions.size() && (g < threads || System.nanoTime() - start < nanos)) {
                    Cluster cluster = clusters.get(g % clusters.size());
                    for (Assignment a : assignor(strategy).assign(cluster, subscriptions.get(g)).groupAssignment().values())
                        assigned.addAndGet(a.partitions().size());
                    g = next.getAndIncrement();
                }
            }));
        }
        for (Future<?> future : running)
            future.get();
        double seconds = (System.nanoTime() - start) / 1e9;
        return String.format("{\"partitions\": %d, \"seconds\": %.6f}", assigned.get(), seconds);
    }

    private static ConsumerPartitionAssignor assignor(String strategy) {
        return strategy.equals("range") ? new RangeAssignor() : new RoundRobinAssignor();
    }

    private static String topic(int cluster, int number) {
        return ("topic-" + cluster + "-" + number).intern();
    }

    private static Cluster cluster(int number, int topics, int partitions) {
        Node[] replicas = {new Node(0, "host", 9092)};
        List<PartitionInfo> infos = new ArrayList<>(topics * partitions);
        for (int t = 0; t < topics; t++) {
            String name = topic(number, t);
            for (int p = 0; p < partitions; p++)
                infos.add(new PartitionInfo(name, p, replicas[0], replicas, replicas));
        }
        return new Cluster("cluster", List.of(replicas), infos, Set.of(), Set.of());
    }

    private static GroupSubscription group(int number, int cluster, int members, int topics) {
        List<String> names = new ArrayList<>();
        for (int t = 0; t < topics; t++)
            names.add(topic(cluster, t));
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (int m = 0; m < members; m++) {
            Subscription subscription =
                new Subscription(new ArrayList<>(names), null, List.of(), -1, Optional.empty());
            subscription.setGroupInstanceId(Optional.empty());
            subscriptions.put("member-" + number + "-" + m, subscription);
        }
        return new GroupSubscription(subscriptions);
    }
}
