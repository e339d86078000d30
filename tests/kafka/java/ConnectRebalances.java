package org.apache.kafka.connect.runtime.distributed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * Asks IncrementalCooperativeAssignor of Kafka 2.4 to 3.9, a rebalance per line of standard input, in the format of
 * tests/golden/README-other.md. The rounds of a sequence go to one assignor, which keeps its state. The coordinator is
 * made without its constructor, which needs a network; the fields that an assignor reads are set. In this package, as
 * the method is visible only here.
 */
public class ConnectRebalances {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static long now;

    public static void main(String[] args) throws Exception {
        Time time = (Time) Proxy.newProxyInstance(
            Time.class.getClassLoader(), new Class<?>[] {Time.class}, (proxy, method, arguments) -> now);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        String sequence = null;
        IncrementalCooperativeAssignor assignor = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode row = JSON.readTree(line);
            if (!row.get("sequence").asText().equals(sequence)) {
                sequence = row.get("sequence").asText();
                assignor = new IncrementalCooperativeAssignor(new LogContext(), time, row.get("max_delay_ms").asInt());
            }
            now = row.get("now_ms").asLong();
            System.out.println(JSON.writeValueAsString(answer(row, assignor)));
        }
    }

    private static ObjectNode answer(JsonNode row, IncrementalCooperativeAssignor assignor) throws Exception {
        Map<String, ExtendedWorkerState> members = new HashMap<>();
        for (Iterator<Map.Entry<String, JsonNode>> each = row.get("members").fields(); each.hasNext();) {
            Map.Entry<String, JsonNode> member = each.next();
            ExtendedAssignment reported = new ExtendedAssignment((short) 2, (short) 0, "leader", "url", 1,
                connectors(member.getValue()), tasks(member.getValue()), new ArrayList<>(), new ArrayList<>(), 0);
            members.put(member.getKey(), new ExtendedWorkerState("url", 1, reported));
        }
        Map<String, ByteBuffer> sent =
            assignor.performTaskAssignment(members.keySet().iterator().next(), 1, members, coordinator(row), (short) 2);
        ObjectNode answer = JSON.createObjectNode();
        ObjectNode expect = answer.putObject("expect");
        ObjectNode assigned = expect.putObject("assigned");
        ObjectNode revoked = expect.putObject("revoked");
        for (String member : members.keySet()) {
            ExtendedAssignment of = IncrementalCooperativeConnectProtocol.deserializeAssignment(sent.get(member));
            write(assigned.putObject(member), of.connectors(), of.tasks());
            write(revoked.putObject(member), of.revokedConnectors(), of.revokedTasks());
            expect.put("delay_ms", of.delay());
        }
        return answer;
    }

    private static WorkerCoordinator coordinator(JsonNode row) throws Exception {
        WorkerCoordinator coordinator = (WorkerCoordinator) unsafe(WorkerCoordinator.class);
        Class<?> snapshotClass = WorkerCoordinator.class.getMethod("configSnapshot").getReturnType();
        Object snapshot = unsafe(snapshotClass);
        Map<String, Integer> counts = new LinkedHashMap<>();
        Map<String, Map<String, String>> connectors = new LinkedHashMap<>();
        Map<ConnectorTaskId, Map<String, String>> tasks = new LinkedHashMap<>();
        for (Iterator<Map.Entry<String, JsonNode>> each = row.get("configured").fields(); each.hasNext();) {
            Map.Entry<String, JsonNode> connector = each.next();
            connectors.put(connector.getKey(), new HashMap<>());
            counts.put(connector.getKey(), connector.getValue().size());
            for (int task = 0; task < connector.getValue().size(); task++) {
                tasks.put(new ConnectorTaskId(connector.getKey(), task), new HashMap<>());
            }
        }
        set(snapshotClass, snapshot, "connectorTaskCounts", counts);
        set(snapshotClass, snapshot, "connectorConfigs", connectors);
        set(snapshotClass, snapshot, "taskConfigs", tasks);
        set(snapshotClass, snapshot, "inconsistentConnectors", new HashSet<>());
        set(WorkerCoordinator.class, coordinator, "configSnapshot", snapshot);
        try {
            set(WorkerCoordinator.class, coordinator, "lastCompletedGenerationId",
                row.get("last_completed_generation").asInt());
        } catch (NoSuchFieldException before251) {
            // Kafka 2.4.0 to 2.5.0 don't know the last completed generation.
        }
        Class<?> base = WorkerCoordinator.class.getSuperclass();
        Class<?> generationClass = base.getDeclaredField("generation").getType();
        Constructor<?> made = generationClass.getDeclaredConstructor(int.class, String.class, String.class);
        made.setAccessible(true);
        set(base, coordinator, "generation", made.newInstance(row.get("generation").asInt(), "leader", "sessioned"));
        return coordinator;
    }

    private static Object unsafe(Class<?> made) throws Exception {
        Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return ((sun.misc.Unsafe) field.get(null)).allocateInstance(made);
    }

    private static void set(Class<?> of, Object target, String name, Object value) throws Exception {
        Field field = of.getDeclaredField(name);
        field.setAccessible(true);
        field.set(target, value);
    }

    private static List<String> connectors(JsonNode listed) {
        List<String> found = new ArrayList<>();
        listed.get("connectors").forEach(name -> found.add(name.asText()));
        return found;
    }

    private static List<ConnectorTaskId> tasks(JsonNode listed) {
        List<ConnectorTaskId> found = new ArrayList<>();
        for (JsonNode text : listed.get("tasks")) {
            int at = text.asText().lastIndexOf('-');
            found.add(new ConnectorTaskId(text.asText().substring(0, at), Integer.parseInt(text.asText().substring(at + 1))));
        }
        return found;
    }

    private static void write(ObjectNode to, Collection<String> connectors, Collection<ConnectorTaskId> tasks) {
        ArrayNode names = to.putArray("connectors");
        connectors.forEach(names::add);
        ArrayNode ids = to.putArray("tasks");
        tasks.forEach(task -> ids.add(task.toString()));
    }
}
