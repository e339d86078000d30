import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * Matches topic names as the group coordinator does. Reads {"regex", "topics"} as JSON lines from stdin and answers each
 * with the list of the topics that match, or null if the regular expression is invalid.
 */
public class TopicRegexes {
    public static void main(String[] args) throws IOException {
        ObjectMapper json = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode row = json.readTree(line);
            System.out.println(json.writeValueAsString(matching(row)));
        }
    }

    private static List<String> matching(JsonNode row) {
        try {
            Pattern pattern = Pattern.compile(row.get("regex").asText());
            List<String> found = new ArrayList<>();
            for (JsonNode topic : row.get("topics"))
                if (pattern.matcher(topic.asText()).matches())
                    found.add(topic.asText());
            return found;
        } catch (PatternSyntaxException error) {
            return null;
        }
    }
}
