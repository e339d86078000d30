import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatResponseData;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.coordinator.common.runtime.CoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimer;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.GroupMetadataManager;
import org.apache.kafka.coordinator.group.api.assignor.ShareGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Kafka's own GroupMetadataManager, step by step: reads lines of {"sequence", "op"} from standard input and answers
 * each with what it said and the whole group after it. A new sequence begins with a new coordinator.
 */
public class ConsumerGroupSteps {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String GROUP = "group-1";

    private final Clock clock = new Clock();
    private final Timers timers = new Timers();
    private final Executor executor = new Executor();
    private final GroupMetadataManager manager;
    private MetadataImage image = MetadataImage.EMPTY;
    private long version = 0;

    public static void main(String[] args) throws IOException {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String sequence = null;
        ConsumerGroupSteps group = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode step = JSON.readTree(line);
            if (!step.get("sequence").asText().equals(sequence)) {
                sequence = step.get("sequence").asText();
                group = new ConsumerGroupSteps(step.get("op"));
            }
            ObjectNode expect = JSON.createObjectNode();
            try {
                group.call(step.get("op"), expect);
            } catch (ApiException e) {
                expect.put("error", Errors.forException(e).name());
            }
            group.state(expect);
            out.println(JSON.writeValueAsString(expect));
        }
        out.flush();
    }

    private ConsumerGroupSteps(JsonNode op) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("group.consumer.assignment.interval.ms", op.get("assignment_interval_ms").asInt());
        settings.put("group.consumer.max.size", op.get("max_size").asInt());
        GroupCoordinatorConfig config = GroupCoordinatorConfig.fromProps(settings);
        SnapshotRegistry registry = new SnapshotRegistry(new LogContext());
        Object builder = new GroupMetadataManager.Builder();
        with(builder, "withTime", clock);
        with(builder, "withTimer", timers);
        with(builder, "withExecutor", executor);
        with(builder, "withConfig", config);
        with(builder, "withSnapshotRegistry", registry);
        with(builder, "withMetadataImage", new KRaftCoordinatorMetadataImage(image));
        with(builder, "withShareGroupAssignor", silent(ShareGroupPartitionAssignor.class));
        with(builder, "withGroupConfigManager", new GroupConfigManager(config, shareGroups(settings)));
        with(builder, "withGroupCoordinatorMetricsShard",
            new GroupCoordinatorMetrics().newMetricsShard(registry, new TopicPartition("__consumer_offsets", 0)));
        manager = (GroupMetadataManager) with(builder, "build");
    }

    /** What the coordinator wants to know of share groups, which are not used here. */
    private static ShareGroupConfig shareGroups(Map<String, Object> settings) {
        ConfigDef defined = new ConfigDef(ShareGroupConfig.CONFIG_DEF);
        GroupCoordinatorConfig.CONFIG_DEF.configKeys().values().forEach(defined::define);
        return new ShareGroupConfig(new AbstractConfig(defined, settings, false));
    }

    private void call(JsonNode op, ObjectNode expect) {
        switch (op.get("op").asText()) {
            case "begin":
                clock.now = op.get("now").asLong();
                break;
            case "heartbeat":
                heartbeat(op, expect);
                break;
            case "advance":
                timers.advance(op.get("to").asLong());
                break;
            case "topics":
                topics(op);
                break;
            case "resolve":
                executor.run();
                break;
            default:
                throw new IllegalArgumentException("no op is called " + op.get("op"));
        }
    }

    private void heartbeat(JsonNode op, ObjectNode expect) {
        ConsumerGroupHeartbeatRequestData request = new ConsumerGroupHeartbeatRequestData()
            .setGroupId(GROUP)
            .setMemberId(op.get("member").asText())
            .setMemberEpoch(op.get("epoch").asInt())
            .setInstanceId(text(op, "instance"))
            .setRebalanceTimeoutMs(op.hasNonNull("rebalance_timeout_ms") ? op.get("rebalance_timeout_ms").asInt() : -1)
            .setSubscribedTopicRegex(text(op, "regex"))
            .setServerAssignor(text(op, "assignor"));
        if (op.hasNonNull("topics")) {
            List<String> names = new ArrayList<>();
            op.get("topics").forEach(name -> names.add(name.asText()));
            request.setSubscribedTopicNames(names);
        }
        if (op.hasNonNull("owned")) {
            List<ConsumerGroupHeartbeatRequestData.TopicPartitions> owned = new ArrayList<>();
            op.get("owned").properties().forEach(each -> {
                List<Integer> partitions = new ArrayList<>();
                each.getValue().forEach(partition -> partitions.add(partition.asInt()));
                owned.add(new ConsumerGroupHeartbeatRequestData.TopicPartitions()
                    .setTopicId(Uuid.fromString(each.getKey())).setPartitions(partitions));
            });
            request.setTopicPartitions(owned);
        }
        CoordinatorResult<ConsumerGroupHeartbeatResponseData, CoordinatorRecord> result =
            manager.consumerGroupHeartbeat(context(), request);
        apply(result);
        expect.put("epoch", result.response().memberEpoch());
        if (result.response().assignment() != null) {
            Map<String, List<Integer>> assigned = new TreeMap<>();
            result.response().assignment().topicPartitions().forEach(each ->
                assigned.put(each.topicId().toString(), each.partitions().stream().sorted().toList()));
            expect.putPOJO("assigned", assigned);
        }
    }

    private void topics(JsonNode op) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
        for (JsonNode name : op.get("remove"))
            delta.replay(new RemoveTopicRecord().setTopicId(image.topics().getTopic(name.asText()).id()));
        for (JsonNode topic : op.get("put")) {
            Uuid id = Uuid.fromString(topic.get("id").asText());
            int from = 0;
            if (image.topics().getTopic(id) == null)
                delta.replay(new TopicRecord().setTopicId(id).setName(topic.get("name").asText()));
            else
                from = image.topics().getTopic(id).partitions().size();
            for (int partition = from; partition < topic.get("partitions").asInt(); partition++)
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(partition)
                    .setReplicas(List.of(0)).setIsr(List.of(0)).setLeader(0));
        }
        image = delta.apply(new MetadataProvenance(++version, 0, 0L, true));
        manager.onMetadataUpdate(
            new KRaftCoordinatorMetadataDelta(delta), new KRaftCoordinatorMetadataImage(image));
    }

    private void state(ObjectNode expect) {
        ConsumerGroup group;
        try {
            group = manager.consumerGroup(GROUP, Long.MAX_VALUE);
        } catch (GroupIdNotFoundException e) {
            return;
        }
        expect.put("state", group.stateAsString());
        expect.put("group_epoch", group.groupEpoch());
        expect.put("assignment_epoch", group.assignmentEpoch());
        expect.put("subscription_type", group.subscriptionType().name());
        expect.putPOJO("order", new ArrayList<>(group.members().keySet()));
        expect.putPOJO("static_members", new TreeMap<>(group.staticMembers()));
        expect.put("resolving", executor.isScheduled(GROUP + "-regex"));
        ObjectNode members = expect.putObject("members");
        group.members().forEach((id, member) -> {
            ObjectNode row = members.putObject(id);
            row.put("epoch", member.memberEpoch());
            row.put("previous", member.previousMemberEpoch());
            row.put("state", member.state().name());
            row.set("assigned", withEpochs(member.assignedPartitions()));
            row.set("pending", withEpochs(member.partitionsPendingRevocation()));
            Map<String, List<Integer>> target = new LinkedHashMap<>();
            group.targetAssignment(id).partitions().forEach(
                (topic, partitions) -> target.put(topic.toString(), new ArrayList<>(partitions)));
            ArrayNode walk = row.putArray("target");
            target.forEach((topic, partitions) -> walk.addArray().add(topic).addPOJO(partitions));
        });
    }

    /** {topic id: [[partition, epoch of its assignment]]}. */
    private static JsonNode withEpochs(Map<Uuid, Map<Integer, Integer>> partitions) {
        Map<String, List<List<Integer>>> rows = new TreeMap<>();
        partitions.forEach((topic, epochs) -> {
            List<List<Integer>> of = new ArrayList<>();
            new TreeMap<>(epochs).forEach((partition, epoch) -> of.add(List.of(partition, epoch)));
            rows.put(topic.toString(), of);
        });
        return JSON.valueToTree(rows);
    }

    /** Records change the group as they do when they are read back from the log. */
    private void apply(CoordinatorResult<?, CoordinatorRecord> result) {
        if (!result.replayRecords())
            return;
        for (CoordinatorRecord each : result.records()) {
            Object value = each.value() == null ? null : each.value().message();
            for (Method method : GroupMetadataManager.class.getMethods())
                if (method.getName().equals("replay") && method.getParameterTypes()[0] == each.key().getClass())
                    call(manager, method, each.key(), value);
        }
    }

    private static AuthorizableRequestContext context() {
        return (AuthorizableRequestContext) Proxy.newProxyInstance(
            ConsumerGroupSteps.class.getClassLoader(), new Class<?>[] {AuthorizableRequestContext.class},
            (proxy, method, args) -> switch (method.getName()) {
                case "clientId" -> "client";
                case "clientAddress" -> InetAddress.getLoopbackAddress();
                default -> null;
            });
    }

    @SuppressWarnings("unchecked")
    private static <T> T silent(Class<T> type) {
        return (T) Proxy.newProxyInstance(
            ConsumerGroupSteps.class.getClassLoader(), new Class<?>[] {type},
            (proxy, method, args) -> method.getReturnType() == String.class ? "silent" : null);
    }

    /** The builder's methods are for Kafka's own tests. */
    private static Object with(Object builder, String name, Object... value) {
        for (Method method : builder.getClass().getDeclaredMethods())
            if (method.getName().equals(name)) {
                method.setAccessible(true);
                return call(builder, method, value);
            }
        throw new IllegalStateException(name);
    }

    private static Object call(Object on, Method method, Object... arguments) {
        try {
            return method.invoke(on, arguments);
        } catch (InvocationTargetException e) {
            throw e.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(e.getCause());
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }

    private static String text(JsonNode op, String name) {
        return op.hasNonNull(name) ? op.get(name).asText() : null;
    }

    private static class Clock implements Time {
        private long now = 0;

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return TimeUnit.MILLISECONDS.toNanos(now);
        }

        @Override
        public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }
    }

    private class Timers implements CoordinatorTimer<CoordinatorRecord> {
        private record Due(String key, long at, TimeoutOperation<CoordinatorRecord> what) {
        }

        private final Map<String, Due> waiting = new LinkedHashMap<>();

        @Override
        public void schedule(String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<CoordinatorRecord> what) {
            waiting.remove(key);
            waiting.put(key, new Due(key, clock.now + unit.toMillis(delay), what));
        }

        @Override
        public void schedule(
            String key, long delay, TimeUnit unit, boolean retry, long backoff, TimeoutOperation<CoordinatorRecord> what) {
            schedule(key, delay, unit, retry, what);
        }

        @Override
        public void scheduleIfAbsent(
            String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<CoordinatorRecord> what) {
            if (!waiting.containsKey(key))
                schedule(key, delay, unit, retry, what);
        }

        @Override
        public void cancel(String key) {
            waiting.remove(key);
        }

        @Override
        public boolean isScheduled(String key) {
            return waiting.containsKey(key);
        }

        private void advance(long to) {
            while (true) {
                Due next = waiting.values().stream().min(Comparator.comparingLong(Due::at)).orElse(null);
                if (next == null || next.at > to)
                    break;
                waiting.remove(next.key);
                clock.now = Math.max(clock.now, next.at);
                apply(next.what.generateRecords());
            }
            clock.now = to;
        }
    }

    private class Executor implements CoordinatorExecutor<CoordinatorRecord> {
        private final Map<String, Runnable> waiting = new LinkedHashMap<>();

        @Override
        public <R> boolean schedule(String key, TaskRunnable<R> task, TaskOperation<CoordinatorRecord, R> then) {
            if (waiting.containsKey(key))
                return false;
            waiting.put(key, () -> {
                R result = null;
                Throwable failed = null;
                try {
                    result = task.run();
                } catch (Throwable e) {
                    failed = e;
                }
                apply(then.onComplete(result, failed));
            });
            return true;
        }

        @Override
        public boolean isScheduled(String key) {
            return waiting.containsKey(key);
        }

        @Override
        public void cancel(String key) {
            waiting.remove(key);
        }

        private void run() {
            List<Runnable> now = new ArrayList<>(waiting.values());
            waiting.clear();
            now.forEach(Runnable::run);
        }
    }
}
