import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.TreeMap;

/** A properties text a line, as hexadecimal UTF-16; java.util.Properties' answer a line, key and value alike, or `refused`. */
public class PropertiesAsJava {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Properties read = new Properties();
            try {
                read.load(new StringReader(text(line)));
            } catch (IllegalArgumentException malformed) {
                out.println("refused");
                continue;
            }
            StringBuilder answer = new StringBuilder();
            new TreeMap<Object, Object>(read).forEach(
                (key, value) -> answer.append(hex((String) key)).append('=').append(hex((String) value)).append(' '));
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
