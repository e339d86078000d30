import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.Permission;
import java.security.Policy;
import java.security.ProtectionDomain;
import java.util.HashMap;
import java.util.Map;

/**
 * Kafka's command line tools of one release, many calls in one JVM: {@code java -Djava.security.manager=allow Tools}.
 *
 * Reads a call a line from standard input: [[class names], [arguments]], and runs the first class that there is. Answers
 * with {"exit": code, "text": standard output and standard error as they came}, or null if there is none of the classes.
 */
public class Tools {
    private static final class Exited extends SecurityException {
        final int code;

        Exited(int code) {
            this.code = code;
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        // Scala keeps the stream that it saw first, so all calls share one.
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        System.setErr(System.out);
        // JMX asks the policy.
        Policy.setPolicy(new Policy() {
            @Override
            public boolean implies(ProtectionDomain domain, Permission permission) {
                return true;
            }
        });
        System.setSecurityManager(new SecurityManager() {
            @Override
            public void checkExit(int code) {
                throw new Exited(code);
            }

            @Override
            public void checkPermission(Permission permission) {
            }
        });
        ObjectMapper json = new ObjectMapper();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode call = json.readTree(line);
            Map<String, Object> answer = null;
            printed.reset();
            for (JsonNode name : call.get(0)) {
                Class<?> tool;
                try {
                    tool = Class.forName(name.asText());
                } catch (ClassNotFoundException missing) {
                    continue;
                }
                answer = new HashMap<>();
                answer.put("exit", run(tool, json.convertValue(call.get(1), String[].class)));
                answer.put("text", printed.toString(StandardCharsets.UTF_8));
                break;
            }
            answers.println(json.writeValueAsString(answer));
        }
        System.setSecurityManager(null);
        Runtime.getRuntime().halt(0);
    }

    private static int run(Class<?> tool, String[] arguments) throws Exception {
        try {
            tool.getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (java.lang.reflect.InvocationTargetException error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                if (cause instanceof Exited exited) {
                    return exited.code;
                }
            }
            error.getCause().printStackTrace();
            return 1;
        }
    }
}
