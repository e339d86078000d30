import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;

/**
 * A text a line, as hexadecimal UTF-16; the answer a line, key=value alike, or `refused`. With `properties` it is read by
 * java.util.Properties; with `jaas` it is a sasl.jaas.config, and the login module comes first, as the value of NUL.
 */
public class TextAsJava {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            StringBuilder answer = new StringBuilder();
            try {
                (args[0].equals("jaas") ? jaas(text(line)) : properties(text(line))).forEach(
                    (key, value) -> answer.append(hex((String) key)).append('=').append(hex((String) value)).append(' '));
            } catch (RuntimeException refused) {
                out.println("refused");
                continue;
            }
            out.println(answer);
        }
        out.flush();
    }

    private static Map<Object, Object> properties(String text) throws IOException {
        Properties read = new Properties();
        read.load(new StringReader(text));
        return new TreeMap<>(read);
    }

    private static Map<Object, Object> jaas(String text) {
        Map<String, ?> configs = Map.of("sasl.jaas.config", new Password(text));
        AppConfigurationEntry entry = JaasContext.loadClientContext(configs).configurationEntries().get(0);
        Map<Object, Object> read = new TreeMap<>(entry.getOptions());
        read.put("\0", entry.getLoginModuleName());
        return read;
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
