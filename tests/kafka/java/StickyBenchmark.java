import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * How fast Kafka's sticky assignors are on a group whose members own something, everything prebuilt in memory.
 *
 * <p>Each line of stdin is strategy, folder and file (which may be empty), tabs between them. The folder's
 * topics/*.json has {"topic", "partitions"} lines, its members/*.json {"member_id", "generation_id", "topics",
 * "owned": [{"topic", "partition"}]} lines. The group's objects are made anew for every line, as an assignor uses up
 * the user data; then the assignment is timed, and written to the file as member, topic, partition. The answer is a
 * line of JSON: {"partitions": assigned, "seconds": elapsed}.
 */
public class StickyBenchmark {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int NO_GENERATION = -1;

    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] asked = line.split("\t", -1);
            System.out.println(run(asked[0], Path.of(asked[1]), asked[2]));
        }
    }

    private static String run(String strategy, Path folder, String output) throws IOException {
        boolean cooperative = strategy.equals("cooperative-sticky");
        ConsumerPartitionAssignor assignor = cooperative ? new CooperativeStickyAssignor() : new StickyAssignor();
        Cluster cluster = cluster(folder.resolve("topics"));
        GroupSubscription group = new GroupSubscription(subscriptions(folder.resolve("members"), cooperative));
        System.gc(); // what reading has left behind is not the assignor's to clear
        long start = System.nanoTime();
        Map<String, Assignment> assigned = assignor.assign(cluster, group).groupAssignment();
        double seconds = (System.nanoTime() - start) / 1e9;
        long partitions = 0;
        for (Assignment assignment : assigned.values())
            partitions += assignment.partitions().size();
        if (!output.isEmpty())
            write(assigned, Path.of(output));
        return String.format("{\"partitions\": %d, \"seconds\": %.6f}", partitions, seconds);
    }

    private static List<JsonNode> lines(Path folder) throws IOException {
        List<JsonNode> lines = new ArrayList<>();
        try (DirectoryStream<Path> files = Files.newDirectoryStream(folder, "*.json")) {
            for (Path file : files)
                for (String line : Files.readAllLines(file))
                    lines.add(JSON.readTree(line));
        }
        return lines;
    }

    private static Cluster cluster(Path topics) throws IOException {
        Node[] replicas = {new Node(0, "host", 9092)};
        List<PartitionInfo> infos = new ArrayList<>();
        for (JsonNode topic : lines(topics)) {
            for (int p = 0; p < topic.get("partitions").asInt(); p++)
                infos.add(new PartitionInfo(name(topic.get("topic")), p, replicas[0], replicas, replicas));
        }
        return new Cluster("cluster", List.of(replicas), infos, Set.of(), Set.of());
    }

    /** In a map that was filled in the order of the members' ids: where hashes collide, that order is seen. */
    private static Map<String, Subscription> subscriptions(Path members, boolean cooperative) throws IOException {
        Map<String, Subscription> byId = new TreeMap<>();
        for (JsonNode member : lines(members))
            byId.put(member.get("member_id").asText(), subscription(member, cooperative));
        Map<String, Subscription> subscriptions = new HashMap<>();
        byId.forEach(subscriptions::put);
        return subscriptions;
    }

    private static Subscription subscription(JsonNode member, boolean cooperative) {
        List<String> topics = new ArrayList<>();
        member.path("topics").forEach(topic -> topics.add(name(topic)));
        List<TopicPartition> owned = new ArrayList<>();
        for (JsonNode each : member.path("owned"))
            owned.add(new TopicPartition(name(each.get("topic")), each.get("partition").asInt()));
        int generation = member.path("generation_id").asInt(NO_GENERATION);
        // StickyAssignor reads ownership of the user data only, CooperativeStickyAssignor of the subscription.
        Subscription subscription = new Subscription(
            topics,
            userData(owned, generation, cooperative),
            cooperative ? owned : List.of(),
            generation,
            Optional.empty());
        subscription.setGroupInstanceId(Optional.empty());
        return subscription;
    }

    /** CooperativeStickyAssignor: the generation. StickyAssignor: [topic, [partition]], and the generation. */
    private static ByteBuffer userData(List<TopicPartition> owned, int generation, boolean cooperative) {
        if (generation == NO_GENERATION)
            return null;
        if (cooperative)
            return ByteBuffer.allocate(4).putInt(0, generation);
        Map<String, List<Integer>> byTopic = new LinkedHashMap<>();
        for (TopicPartition tp : owned)
            byTopic.computeIfAbsent(tp.topic(), topic -> new ArrayList<>()).add(tp.partition());
        int size = 8 + owned.size() * 4;
        for (String topic : byTopic.keySet())
            size += 6 + topic.getBytes(StandardCharsets.UTF_8).length;
        ByteBuffer data = ByteBuffer.allocate(size).putInt(byTopic.size());
        byTopic.forEach((topic, partitions) -> {
            byte[] name = topic.getBytes(StandardCharsets.UTF_8);
            data.putShort((short) name.length).put(name).putInt(partitions.size());
            partitions.forEach(data::putInt);
        });
        return data.putInt(generation).flip();
    }

    private static String name(JsonNode node) {
        return node.asText().intern();
    }

    private static void write(Map<String, Assignment> assigned, Path output) throws IOException {
        try (BufferedWriter out = Files.newBufferedWriter(output)) {
            for (Map.Entry<String, Assignment> member : assigned.entrySet())
                for (TopicPartition tp : member.getValue().partitions())
                    out.write(member.getKey() + "\t" + tp.topic() + "\t" + tp.partition() + "\n");
        }
    }
}
