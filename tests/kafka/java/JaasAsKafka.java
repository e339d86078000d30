import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;

/** A sasl.jaas.config a line, as hexadecimal UTF-16; Kafka's answer a line: module and options alike, or `refused`. */
public class JaasAsKafka {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            StringBuilder answer = new StringBuilder();
            try {
                Map<String, ?> configs = Map.of("sasl.jaas.config", new Password(text(line)));
                AppConfigurationEntry entry = JaasContext.loadClientContext(configs).configurationEntries().get(0);
                answer.append(hex(entry.getLoginModuleName())).append(' ');
                new TreeMap<String, Object>(entry.getOptions()).forEach(
                    (key, value) -> answer.append(hex(key)).append('=').append(hex((String) value)).append(' '));
            } catch (RuntimeException refused) {
                out.println("refused");
                continue;
            }
            out.println(answer);
        }
        out.flush();
    }

    private static String text(String hex) {
        StringBuilder text = new StringBuilder();
        for (int at = 0; at < hex.length(); at += 4) {
            text.append((char) Integer.parseInt(hex.substring(at, at + 4), 16));
        }
        return text.toString();
    }

    private static String hex(String text) {
        StringBuilder hex = new StringBuilder();
        for (char unit : text.toCharArray()) {
            hex.append(String.format("%04x", (int) unit));
        }
        return hex.toString();
    }
}
