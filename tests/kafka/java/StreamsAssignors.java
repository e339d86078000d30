import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;

/**
 * Asks the broker's assignors of Streams groups (KIP-1071), a group per line of standard input, in the format of
 * tests/golden/README-848.md; answers each with `expect`, or with `error`. Members are handed over in the order in which
 * the line has them. The interfaces were moved and changed in 4.4, so that all of them are called by name.
 */
public class StreamsAssignors {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String HERE = "org.apache.kafka.coordinator.group.streams.assignor.";
    private static final String API = "org.apache.kafka.coordinator.group.api.streams.assignor.";

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    private static ObjectNode answer(JsonNode row) throws Exception {
        boolean mock = row.get("system").asText().equals("streams-mock");
        Object assignor = Class.forName(HERE + (mock ? "MockAssignor" : "StickyTaskAssignor"))
            .getConstructor().newInstance();
        Map<String, Object> members = new LinkedHashMap<>();
        boolean since44 = since44();
        for (JsonNode member : row.get("members")) {
            members.put(member.get("id").asText(), since44 ? member44(member) : member43(member));
        }
        String replicas = row.get("standby_replicas").asText();
        Object group = since44 ? group44(members, replicas)
            : make("GroupSpecImpl", members, Map.of("num.standby.replicas", replicas));
        ObjectNode told = JSON.createObjectNode();
        try {
            Object given = call(assignor, "assign", group, topology(row.get("subtopologies")));
            ObjectNode expect = told.putObject("expect");
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) call(given, "members")).entrySet()) {
                ObjectNode got = expect.putObject((String) entry.getKey());
                got.set("active", JSON.valueToTree(call(entry.getValue(), "activeTasks")));
                got.set("standby", JSON.valueToTree(call(entry.getValue(), "standbyTasks")));
            }
        } catch (InvocationTargetException thrown) {
            ObjectNode error = told.putObject("error");
            error.put("class", thrown.getCause().getClass().getName());
            error.put("message", thrown.getCause().getMessage());
        }
        return told;
    }

    private static boolean since44() {
        try {
            Class.forName(API + "GroupSpec");
            return true;
        } catch (ClassNotFoundException before) {
            return false;
        }
    }

    private static Object member44(JsonNode member) throws Exception {
        Map<String, Map<Integer, Long>> offsets = new HashMap<>();
        offsets(member).forEach((subtopology, of) -> offsets.put(subtopology, of));
        return make("MemberMetadataAndStateImpl", Optional.empty(), Optional.empty(), member.get("process").asText(),
            Map.of(), tasks(member, "active"), tasks(member, "standby"), tasks(member, "warmup"), offsets, Map.of());
    }

    private static Object member43(JsonNode member) throws Exception {
        Map<Object, Long> offsets = new HashMap<>();
        for (Map.Entry<String, Map<Integer, Long>> of : offsets(member).entrySet()) {
            for (Map.Entry<Integer, Long> offset : of.getValue().entrySet()) {
                offsets.put(make("TaskId", of.getKey(), offset.getKey()), offset.getValue());
            }
        }
        return make("AssignmentMemberSpec", Optional.empty(), Optional.empty(), tasks(member, "active"),
            tasks(member, "standby"), tasks(member, "warmup"), member.get("process").asText(), Map.of(), offsets,
            Map.of());
    }

    private static Object group44(Map<String, Object> members, String replicas) throws Exception {
        Object configs = Class.forName(HERE + "AssignmentConfigsImpl").getMethod("fromMap", Map.class)
            .invoke(null, Map.of("num.standby.replicas", replicas));
        return make("GroupSpecImpl", members, configs);
    }

    private static Map<String, Set<Integer>> tasks(JsonNode member, String role) {
        Map<String, Set<Integer>> tasks = new LinkedHashMap<>();
        member.get(role).fields().forEachRemaining(entry -> {
            Set<Integer> numbers = tasks.computeIfAbsent(entry.getKey(), any -> new LinkedHashSet<>());
            entry.getValue().forEach(number -> numbers.add(number.asInt()));
        });
        return tasks;
    }

    private static Map<String, Map<Integer, Long>> offsets(JsonNode member) {
        Map<String, Map<Integer, Long>> offsets = new LinkedHashMap<>();
        member.get("offsets").fields().forEachRemaining(entry -> {
            Map<Integer, Long> of = offsets.computeIfAbsent(entry.getKey(), any -> new LinkedHashMap<>());
            entry.getValue().fields().forEachRemaining(
                offset -> of.put(Integer.valueOf(offset.getKey()), offset.getValue().asLong()));
        });
        return offsets;
    }

    private static Object topology(JsonNode subtopologies) throws Exception {
        Map<String, JsonNode> sorted = new TreeMap<>();
        subtopologies.fields().forEachRemaining(entry -> sorted.put(entry.getKey(), entry.getValue()));
        List<String> ids = new ArrayList<>(sorted.keySet());
        InvocationHandler answers = (proxy, method, arguments) -> switch (method.getName()) {
            case "subtopologies" -> ids;
            case "maxNumInputPartitions" -> sorted.get(arguments[0]).get("partitions").asInt();
            case "isStateful" -> sorted.get(arguments[0]).get("stateful").asBoolean();
            default -> throw new UnsupportedOperationException(method.getName());
        };
        Class<?> describer = Class.forName((since44() ? API : HERE) + "TopologyDescriber");
        return Proxy.newProxyInstance(describer.getClassLoader(), new Class<?>[] {describer}, answers);
    }

    private static Object make(String name, Object... arguments) throws Exception {
        return Class.forName(HERE + name).getConstructors()[0].newInstance(arguments);
    }

    private static Object call(Object on, String name, Object... arguments) throws Exception {
        for (Method method : on.getClass().getMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == arguments.length) {
                return method.invoke(on, arguments);
            }
        }
        throw new NoSuchMethodException(name);
    }
}
