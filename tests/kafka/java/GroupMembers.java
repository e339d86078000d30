import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
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
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Many real KafkaConsumers in one JVM: {@code java -cp <kafka jars> GroupMembers.java <bootstrap servers>}.
 *
 * Reads a member a line from standard input as JSON:
 * {"group", "client_id", "topics": [...] or "regex", "protocol"?: "classic|consumer|share", "assignor"?: class name
 * (several: with commas between them) or KIP-848 assignor, "instance_id"?, "rack"?, "auto_offset_reset"?,
 * "session_timeout_ms"?, "heartbeat_interval_ms"?, "max_poll_interval_ms"?, "metadata_max_age_ms"?,
 * "commit_every_ms"?, "revoking_ms"?: how long it takes to give up partitions, "follow"?: true}, then an empty line. Each member polls in its own thread with all its
 * partitions paused (offsets stay as they are; not in a share group, nor with "commit_every_ms": that one reads, and
 * commits by itself so often) until standard input ends. After the empty line there may come commands, a line each:
 * {"start": a member as above}; {"leave": {"group", "client_id"}}, as close() does, so a static member of a KIP-848
 * group for a while, of a classic one not at all; {"leave_for_good": …}, static or not; {"pause": …}, does not poll any
 * more, and {"resume": …}; {"subscribe": a member as above, with other topics or another regex}. A share consumer can
 * only start, leave, pause and resume. None can crash alone: one that closes with REMAIN_IN_GROUP says all the same that
 * it leaves, if a heartbeat is due while it closes (KIP-848, clients 4.4.0).
 *
 * Each call of a member's rebalance listener is a line of JSON on standard output:
 * {"group", "client_id", "event": "assigned|revoked|lost", "partitions": [[topic, partition], ...], "at_ms",
 * "member_id", "generation_id"}. With "follow" there is such a line as well, with the event "generation" and what the
 * member owns, after each poll in which member id or generation changed, and one, "closed", when it has left.
 */
public class GroupMembers {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Member> MEMBERS = new HashMap<>();
    private static final List<Thread> THREADS = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null && !line.isEmpty(); line = input.readLine()) {
            prepare(arguments[0], JSON.readTree(line));
        }
        THREADS.forEach(Thread::start);
        // Whoever started us holds our standard input open for as long as the members shall live.
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode command = JSON.readTree(line);
            String verb = command.fieldNames().next();
            JsonNode of = command.get(verb);
            if (verb.equals("start")) {
                prepare(arguments[0], of).start();
            } else {
                MEMBERS.get(name(of)).obey(verb, of);
            }
        }
        for (Member member : MEMBERS.values()) {
            member.obey("leave", null);
        }
        for (Thread thread : THREADS) {
            thread.join();
        }
    }

    private static Thread prepare(String bootstrapServers, JsonNode spec) {
        boolean share = spec.path("protocol").asText().equals("share");
        Properties settings = settings(bootstrapServers, spec);
        Member member = share ? new ShareMember(spec, settings) : new ConsumerMember(spec, settings);
        Thread thread = new Thread(member, name(spec));
        MEMBERS.put(name(spec), member);
        THREADS.add(thread);
        return thread;
    }

    private static String name(JsonNode spec) {
        return spec.get("group").asText() + " " + spec.get("client_id").asText();
    }

    private static List<String> topics(JsonNode spec) {
        List<String> topics = new ArrayList<>();
        spec.get("topics").forEach(topic -> topics.add(topic.asText()));
        return topics;
    }

    /** Polls until it is told to go. */
    private abstract static class Member implements Runnable {
        final JsonNode spec;
        private final Queue<JsonNode> subscriptions = new ConcurrentLinkedQueue<>();
        private volatile boolean polling = true;
        private volatile String end;

        Member(JsonNode spec) {
            this.spec = spec;
            subscriptions.add(spec);
        }

        void obey(String command, JsonNode details) {
            switch (command) {
                case "pause", "resume" -> polling = command.equals("resume");
                case "subscribe" -> subscriptions.add(details);
                case "leave", "leave_for_good" -> {
                    if (end == null) {
                        end = command;
                        wakeup();
                    }
                }
                default -> throw new IllegalArgumentException(command);
            }
        }

        @Override
        public void run() {
            try {
                while (end == null) {
                    while (!subscriptions.isEmpty()) {
                        subscribe(subscriptions.remove());
                    }
                    if (polling) {
                        poll();
                    } else {
                        Thread.sleep(20);
                    }
                }
            } catch (WakeupException | InterruptedException stop) {
                // the end that was asked for
            } finally {
                close(end == null ? "leave" : end);
            }
        }

        abstract void subscribe(JsonNode to);

        abstract void poll();

        abstract void wakeup();

        abstract void close(String how);
    }

    private static final class ConsumerMember extends Member implements ConsumerRebalanceListener {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final boolean follow;
        private ConsumerGroupMetadata known;

        ConsumerMember(JsonNode spec, Properties settings) {
            super(spec);
            consumer = new KafkaConsumer<>(settings);
            follow = spec.path("follow").asBoolean();
            known = consumer.groupMetadata();
        }

        @Override
        void subscribe(JsonNode to) {
            if (!to.has("regex")) {
                consumer.subscribe(topics(to), this);
            } else if (spec.path("protocol").asText().equals("consumer")) {
                consumer.subscribe(new SubscriptionPattern(to.get("regex").asText()), this);
            } else {
                consumer.subscribe(Pattern.compile(to.get("regex").asText()), this);
            }
        }

        @Override
        void poll() {
            consumer.poll(Duration.ofMillis(200));
            ConsumerGroupMetadata now = consumer.groupMetadata();
            if (follow && !now.equals(known)) {
                tell("generation", consumer.assignment(), now);
                known = now;
            }
        }

        @Override
        void wakeup() {
            consumer.wakeup();
        }

        @Override
        void close(String how) {
            boolean forGood = how.equals("leave_for_good");
            consumer.close(CloseOptions.groupMembershipOperation(
                forGood ? GroupMembershipOperation.LEAVE_GROUP : GroupMembershipOperation.DEFAULT));
            if (follow) {
                tell("closed", List.of(), known);
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            tell("revoked", partitions, consumer.groupMetadata());
            try {
                Thread.sleep(spec.path("revoking_ms").asLong());
            } catch (InterruptedException stop) {
                Thread.currentThread().interrupt();
            }
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            tell("lost", partitions, consumer.groupMetadata());
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            if (!spec.has("commit_every_ms")) {
                consumer.pause(partitions);
            }
            tell("assigned", partitions, consumer.groupMetadata());
        }

        private void tell(String event, Collection<TopicPartition> partitions, ConsumerGroupMetadata member) {
            ObjectNode line = JSON.createObjectNode().put("event", event);
            line.set("group", spec.get("group"));
            line.set("client_id", spec.get("client_id"));
            ArrayNode pairs = line.putArray("partitions");
            partitions.forEach(tp -> pairs.addArray().add(tp.topic()).add(tp.partition()));
            line.put("at_ms", System.currentTimeMillis());
            line.put("member_id", member.memberId()).put("generation_id", member.generationId());
            synchronized (GroupMembers.class) {
                System.out.println(line);
                System.out.flush();
            }
        }
    }

    private static final class ShareMember extends Member {
        private final KafkaShareConsumer<byte[], byte[]> consumer;

        ShareMember(JsonNode spec, Properties settings) {
            super(spec);
            List.of("enable.auto.commit", "auto.commit.interval.ms", "auto.offset.reset", "group.protocol").forEach(settings::remove);
            consumer = new KafkaShareConsumer<>(settings);
        }

        @Override
        void subscribe(JsonNode to) {
            consumer.subscribe(topics(to));
        }

        @Override
        void poll() {
            consumer.poll(Duration.ofMillis(200));
        }

        @Override
        void wakeup() {
            consumer.wakeup();
        }

        @Override
        void close(String how) {
            consumer.close();
        }
    }

    private static Properties settings(String bootstrapServers, JsonNode spec) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrapServers);
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("metadata.max.age.ms", "2000");
        settings.put("group.id", spec.get("group").asText());
        settings.put("client.id", spec.get("client_id").asText());
        settings.put("auto.offset.reset", spec.path("auto_offset_reset").asText("earliest"));
        copy(spec, "instance_id", settings, "group.instance.id");
        copy(spec, "rack", settings, "client.rack");
        copy(spec, "session_timeout_ms", settings, "session.timeout.ms");
        copy(spec, "heartbeat_interval_ms", settings, "heartbeat.interval.ms");
        copy(spec, "max_poll_interval_ms", settings, "max.poll.interval.ms");
        copy(spec, "commit_every_ms", settings, "auto.commit.interval.ms");
        copy(spec, "metadata_max_age_ms", settings, "metadata.max.age.ms");
        settings.put("enable.auto.commit", String.valueOf(spec.has("commit_every_ms")));
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
