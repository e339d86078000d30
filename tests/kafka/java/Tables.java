import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;

/**
 * Fills, empties and walks Java's own hash tables. Reads {"keys", "table", "ops": ["+key", "-key"...]} as JSON lines from
 * stdin and answers each with {"walk": [key...]} on stdout.
 *
 * <p>keys: text (String), optional (Optional of String, which does not compare), partition (TopicPartition of topic t).
 * table: map (a HashMap), set (a HashSet), copy (a HashSet made from the list of all that is put in; no removals), second
 * (a HashMap that Collectors.toMap makes from the map), a number (a HashMap of that initial capacity); or balanced, ended,
 * reverted: what AbstractStickyAssignor does to the map of what members own, where those with "-" take no part.
 */
public class Tables {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode row = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            ArrayNode walk = answer.putArray("walk");
            for (Object key : walked(row))
                walk.add(text(key));
            out.append(JSON.writeValueAsString(answer)).append('\n');
        }
        System.out.write(out.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    private static Collection<Object> walked(JsonNode row) {
        String table = row.get("table").asText();
        if (table.equals("set") || table.equals("copy")) {
            List<Object> listed = new ArrayList<>();
            Set<Object> set = new HashSet<>();
            for (JsonNode op : row.get("ops")) {
                Object key = key(row, op);
                listed.add(key);
                if (op.asText().startsWith("+"))
                    set.add(key);
                else
                    set.remove(key);
            }
            return table.equals("set") ? set : new HashSet<>(listed);
        }
        if (table.equals("balanced") || table.equals("ended") || table.equals("reverted"))
            return owned(row, table);
        boolean sized = !table.equals("map") && !table.equals("second");
        Map<Object, Integer> map = sized ? new HashMap<>(Integer.parseInt(table)) : new HashMap<>();
        for (JsonNode op : row.get("ops")) {
            if (op.asText().startsWith("+"))
                map.put(key(row, op), 0);
            else
                map.remove(key(row, op));
        }
        if (table.equals("second"))
            return map.entrySet().stream().collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue)).keySet();
        return map.keySet();
    }

    /** The order of puts and removals of assignPartitions and of GeneralAssignmentBuilder.balance. */
    private static Collection<Object> owned(JsonNode row, String when) {
        Map<Object, Integer> subscriptions = new HashMap<>();
        Set<Object> takesNoPart = new HashSet<>();
        for (JsonNode op : row.get("ops")) {
            if (op.asText().startsWith("+"))
                subscriptions.put(key(row, op), 0);
            else
                takesNoPart.add(key(row, op));
        }
        Map<Object, Integer> owned = new HashMap<>();
        subscriptions.forEach(owned::put);
        Map<Object, Integer> potential = new HashMap<>(subscriptions.keySet().size());
        subscriptions.forEach(potential::put);
        Map<Object, Integer> fixed = new HashMap<>();
        for (Object member : potential.keySet()) {
            if (takesNoPart.contains(member))
                fixed.put(member, owned.remove(member));
        }
        if (when.equals("balanced"))
            return owned.keySet();
        Map<Object, Integer> copy = new HashMap<>();
        owned.forEach(copy::put);
        if (when.equals("reverted")) {
            owned.clear();
            copy.forEach(owned::put);
        }
        fixed.forEach(owned::put);
        return owned.keySet();
    }

    private static Object key(JsonNode row, JsonNode op) {
        String text = op.asText().substring(1);
        switch (row.get("keys").asText()) {
            case "optional": return Optional.of(text);
            case "partition": return new TopicPartition("t", Integer.parseInt(text));
            default: return text;
        }
    }

    private static String text(Object key) {
        if (key instanceof TopicPartition)
            return String.valueOf(((TopicPartition) key).partition());
        return key instanceof Optional ? (String) ((Optional<?>) key).get() : (String) key;
    }
}
