import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;

/**
 * Reads names of settings of consumers, coordinators, and share groups as JSON lines from stdin, and answers each with its default
 * as text; null if there is none.
 */
public class Defaults {
    public static void main(String[] args) throws IOException {
        ObjectMapper json = new ObjectMapper();
        Map<String, Object> defaults = new HashMap<>(GroupCoordinatorConfig.CONFIG_DEF.defaultValues());
        defaults.putAll(ShareGroupConfig.CONFIG_DEF.defaultValues());
        defaults.putAll(ConsumerConfig.configDef().defaultValues());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Object value = defaults.get(json.readTree(line).asText());
            System.out.println(json.writeValueAsString(value == null ? null : value.toString()));
        }
    }
}
