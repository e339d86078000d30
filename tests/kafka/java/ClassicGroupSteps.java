import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.function.Predicate;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocol;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocolCollection;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.SyncGroupResponseData;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.classic.ClassicGroup;
import org.apache.kafka.coordinator.group.classic.ClassicGroupMember;
import org.apache.kafka.coordinator.group.classic.ClassicGroupState;

/**
 * Kafka's own ClassicGroup, step by step: reads lines of {"sequence", "op"} from standard input and answers each with
 * the line that a recorded step has in "expect". A new sequence begins with an empty group.
 */
public class ClassicGroupSteps {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws IOException {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        ObjectMapper ascii = new ObjectMapper();
        ascii.getFactory().enable(JsonWriteFeature.ESCAPE_NON_ASCII.mappedFeature());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String sequence = null;
        ClassicGroup group = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode step = JSON.readTree(line);
            if (!step.get("sequence").asText().equals(sequence)) {
                sequence = step.get("sequence").asText();
                group = new ClassicGroup(new LogContext(), "group-1", ClassicGroupState.EMPTY, Time.SYSTEM);
            }
            ObjectNode expect = JSON.createObjectNode();
            try {
                expect.putPOJO("returned", call(group, step.get("op")));
            } catch (RuntimeException e) {
                expect.putObject("error").put("class", e.getClass().getSimpleName()).put("message", e.getMessage());
            }
            state(group, expect);
            out.println(ascii.writeValueAsString(expect));
        }
        out.flush();
    }

    private static Object call(ClassicGroup group, JsonNode op) {
        String id = text(op, "id");
        switch (op.get("op").asText()) {
            case "add":
                group.add(
                    new ClassicGroupMember(
                        id, Optional.ofNullable(text(op, "instance")), "client", "host",
                        op.get("rebalance_timeout_ms").asInt(), 10_000, text(op, "protocol_type"), protocols(op)),
                    waiting(op));
                return null;
            case "update":
                group.updateMember(
                    group.member(id), protocols(op), op.get("rebalance_timeout_ms").asInt(), 10_000, waiting(op));
                return null;
            case "remove":
                group.remove(id);
                return null;
            case "replace_static":
                group.replaceStaticMember(text(op, "instance"), text(op, "old"), text(op, "new"));
                return null;
            case "transition":
                group.transitionTo(ClassicGroupState.valueOf(text(op, "to")));
                return null;
            case "init_next_generation":
                group.initNextGeneration();
                return null;
            case "maybe_elect_new_joined_leader":
                return group.maybeElectNewJoinedLeader();
            case "select_protocol":
                return group.selectProtocol();
            case "supports_protocols":
                return group.supportsProtocols(
                    text(op, "protocol_type"), ClassicGroupMember.plainProtocolSet(protocols(op)));
            case "complete_join":
                return group.completeJoinFuture(group.member(id), new JoinGroupResponseData());
            case "await_sync":
                group.member(id).setAwaitingSyncFuture(new CompletableFuture<>());
                group.removePendingSyncMember(id);
                return null;
            case "complete_sync":
                return group.completeSyncFuture(group.member(id), new SyncGroupResponseData());
            case "add_pending_join":
                return group.addPendingMember(id);
            case "add_pending_sync":
                return group.addPendingSyncMember(id);
            default:
                throw new IllegalArgumentException("no op is called " + op.get("op"));
        }
    }

    private static void state(ClassicGroup group, ObjectNode expect) {
        expect.put("state", group.currentState().name());
        expect.put("generation", group.generationId());
        expect.put("leader", group.leaderOrNull());
        expect.put("protocol_type", group.protocolType().orElse(null));
        expect.put("protocol_name", group.protocolName().orElse(null));
        expect.putPOJO("members", new ArrayList<>(group.allMemberIds()));
        expect.putPOJO("static_members", new TreeMap<>(ClassicGroupSteps.<Map<String, String>>field(group, "staticMembers")));
        expect.putPOJO("pending_join", new TreeSet<>(ClassicGroupSteps.<Set<String>>field(group, "pendingJoinMembers")));
        expect.putPOJO("pending_sync", new TreeSet<>(group.allPendingSyncMembers()));
        expect.putPOJO("awaiting_join", ids(group, ClassicGroupMember::isAwaitingJoin));
        expect.putPOJO("awaiting_sync", ids(group, ClassicGroupMember::isAwaitingSync));
        expect.put("num_awaiting_join", group.numAwaitingJoinResponse());
        expect.put("all_members_joined", group.hasAllMembersJoined());
        expect.putPOJO("supported_protocols", new TreeMap<>(group.supportedProtocols()));
        expect.putPOJO("subscribed_topics", group.subscribedTopics().map(TreeSet::new).orElse(null));
        expect.put("rebalance_timeout_ms", group.rebalanceTimeoutMs());
    }

    private static TreeSet<String> ids(ClassicGroup group, Predicate<ClassicGroupMember> which) {
        TreeSet<String> found = new TreeSet<>();
        group.allMembers().stream().filter(which).forEach(member -> found.add(member.memberId()));
        return found;
    }

    /** What Kafka's class keeps to itself. */
    @SuppressWarnings("unchecked")
    private static <T> T field(ClassicGroup group, String name) {
        try {
            Field field = ClassicGroup.class.getDeclaredField(name);
            field.setAccessible(true);
            return (T) field.get(group);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static JoinGroupRequestProtocolCollection protocols(JsonNode op) {
        List<String> topics = new ArrayList<>();
        if (op.has("topics"))
            op.get("topics").forEach(topic -> topics.add(topic.asText()));
        JoinGroupRequestProtocolCollection protocols = new JoinGroupRequestProtocolCollection();
        for (JsonNode name : op.get("protocols")) {
            ByteBuffer metadata = ConsumerProtocol.serializeSubscription(new Subscription(topics));
            byte[] bytes = new byte[metadata.remaining()];
            metadata.get(bytes);
            protocols.add(new JoinGroupRequestProtocol().setName(name.asText()).setMetadata(bytes));
        }
        return protocols;
    }

    private static <T> CompletableFuture<T> waiting(JsonNode op) {
        return op.get("awaiting_join").asBoolean() ? new CompletableFuture<>() : null;
    }

    private static String text(JsonNode op, String name) {
        return op.hasNonNull(name) ? op.get(name).asText() : null;
    }
}
