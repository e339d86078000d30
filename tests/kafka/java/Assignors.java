import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Constructor;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Asks Kafka's own assignors. Reads groups as JSON lines (the row format of tests/golden/README-client.md, section 1)
 * from stdin and answers each with {"case", "expect"} or {"case", "expect": null, "error", "error_message"} on stdout.
 *
 * <p>Every subscription takes the way over the wire (serialize, deserialize), as it does to a group's leader, and
 * every row gets a new assignor. Any release of the clients from 2.4 on will do.
 *
 * <p>A row with `processor_seconds` is given up after so much time of the processor, with the error BusyException.
 */
public class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int DEFAULT_GENERATION = -1;

    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        BufferedWriter out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.write(JSON.writeValueAsString(answer(JSON.readTree(line))));
            out.newLine();
        }
        out.flush();
    }

    static ConsumerPartitionAssignor assignor(String strategy) {
        switch (strategy) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            case "cooperative-sticky": return new CooperativeStickyAssignor();
            default: throw new IllegalArgumentException("no assignor of Kafka's is called " + strategy);
        }
    }

    private static ObjectNode answer(JsonNode row) {
        ObjectNode answer = JSON.createObjectNode();
        answer.set("case", row.get("case"));
        String strategy = row.get("strategy").asText();
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : row.get("members"))
            subscriptions.put(member.get("id").asText(), subscription(strategy, member));
        Callable<Map<String, Assignment>> assign =
            () -> assignor(strategy).assign(cluster(row), new GroupSubscription(subscriptions)).groupAssignment();
        try {
            Map<String, Assignment> assigned =
                row.has("processor_seconds") ? within(row.get("processor_seconds").asLong(), assign) : assign.call();
            ObjectNode expect = answer.putObject("expect");
            for (JsonNode member : row.get("members")) {
                ArrayNode partitions = expect.putArray(member.get("id").asText());
                for (TopicPartition tp : assigned.get(member.get("id").asText()).partitions())
                    partitions.addArray().add(tp.topic()).add(tp.partition());
            }
        } catch (Exception e) {
            answer.putNull("expect");
            answer.put("error", e.getClass().getName());
            answer.put("error_message", e.getMessage());
        }
        return answer;
    }

    /** The result; throws BusyException if the processor has worked that long on it and there is none. */
    private static <T> T within(long seconds, Callable<T> task) throws Exception {
        FutureTask<T> running = new FutureTask<>(task);
        Thread thread = new Thread(running);
        thread.setDaemon(true);
        thread.start();
        while (true) {
            try {
                return running.get(100, TimeUnit.MILLISECONDS);
            } catch (TimeoutException e) {
                StackTraceElement[] at = thread.getStackTrace();
                if (ManagementFactory.getThreadMXBean().getThreadCpuTime(thread.getId()) > seconds * 1_000_000_000L)
                    throw new BusyException(Arrays.stream(at).map(StackTraceElement::getMethodName).toList().toString());
            }
        }
    }

    /** Names the methods in which the thread is busy. */
    static class BusyException extends Exception {
        BusyException(String methods) {
            super(methods);
        }
    }

    /** What the leader decodes of a member's JoinGroup; the coordinator adds the instance id. */
    private static Subscription subscription(String strategy, JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText()));
        List<TopicPartition> owned = new ArrayList<>();
        for (JsonNode pair : member.get("owned"))
            owned.add(new TopicPartition(pair.get(0).asText(), pair.get(1).asInt()));
        // StickyAssignor is eager: its members have revoked everything and tell their past in the user data only.
        boolean inUserData = strategy.equals("sticky");
        Subscription sent = sent(
            topics,
            userData(strategy, member, owned),
            inUserData ? List.of() : owned,
            number(member, "generation", DEFAULT_GENERATION),
            Optional.ofNullable(text(member, "rack")));
        Subscription received = ConsumerProtocol.deserializeSubscription(ConsumerProtocol.serializeSubscription(sent));
        received.setGroupInstanceId(Optional.ofNullable(text(member, "instance")));
        return received;
    }

    /** With the last of these left out that the release of the clients does not know. */
    private static Subscription sent(Object... fields) {
        Constructor<?> all = Arrays.stream(Subscription.class.getConstructors())
            .max(Comparator.comparing(Constructor::getParameterCount)).get();
        try {
            return (Subscription) all.newInstance(Arrays.copyOf(fields, all.getParameterCount()));
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static ByteBuffer userData(String strategy, JsonNode member, List<TopicPartition> owned) {
        boolean own = member.has("user_generation");
        boolean known = own ? !member.get("user_generation").isNull() : !member.get("generation").isNull();
        int generation = number(member, own ? "user_generation" : "generation", DEFAULT_GENERATION);
        if (strategy.equals("cooperative-sticky") && known)
            return ByteBuffer.allocate(4).putInt(0, generation);
        if (!strategy.equals("sticky") || (owned.isEmpty() && !known && !own))
            return null;
        return stickyUserData(owned, known ? generation : null);
    }

    /** StickyAssignor's schema: [topic, [partition]], and since version 1 the generation. */
    private static ByteBuffer stickyUserData(List<TopicPartition> owned, Integer generation) {
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
        if (generation != null)
            data.putInt(generation);
        return data.flip();
    }

    /** The metadata: a broker for each rack that a replica names, and one without rack. */
    private static Cluster cluster(JsonNode row) {
        Map<String, Node> brokers = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        row.get("topics").fields().forEachRemaining(topic -> {
            JsonNode racks = row.path("replica_racks").path(topic.getKey());
            for (int p = 0; p < topic.getValue().asInt(); p++) {
                Node[] replicas = new Node[racks.path(p).size()];
                for (int i = 0; i < replicas.length; i++) {
                    JsonNode rack = racks.get(p).get(i);
                    replicas[i] = brokers.computeIfAbsent(rack.isNull() ? null : rack.asText(),
                        name -> new Node(brokers.size(), "host", 9092, name));
                }
                Node leader = replicas.length == 0 ? null : replicas[0];
                partitions.add(new PartitionInfo(topic.getKey(), p, leader, replicas, replicas));
            }
        });
        return new Cluster("cluster", brokers.values(), partitions, Set.of(), Set.of());
    }

    private static String text(JsonNode node, String name) {
        return node.path(name).isTextual() ? node.get(name).asText() : null;
    }

    private static int number(JsonNode node, String name, int otherwise) {
        return node.path(name).isInt() ? node.get(name).asInt() : otherwise;
    }
}
