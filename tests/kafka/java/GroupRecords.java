import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Records of __consumer_offsets, a JSON line each. {"key", "value"} in base64 (value null: a tombstone) is read by the
 * broker's own serde and answered in the form of its JsonConverters, with what the serde makes of it when it writes it
 * again, or why it does not; or with {"refused": why}. {"type", "version", "fields"} is a value in that form, and
 * answered with its bytes.
 *
 * <p>The serde refuses versions that it does not know. The generated classes do not; what they read is told all the same.
 */
public class GroupRecords {
    private static final JsonMapper JSON =
        JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();
    private static final Serde SERDE = new Serde();

    /** The broker's serde, which shows the classes that it reads by. */
    private static final class Serde extends GroupCoordinatorRecordSerde {
        ApiMessage value(short type) {
            return apiMessageValueFor(type);
        }
    }

    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode row = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            try {
                if (row.has("fields"))
                    write(row, answer);
                else
                    read(bytes(row.get("key")), bytes(row.get("value")), answer);
            } catch (RuntimeException | ReflectiveOperationException refused) {
                answer.removeAll();
                answer.put("refused", refused.getClass().getSimpleName() + ": " + refused.getMessage());
            }
            out.append(JSON.writeValueAsString(answer)).append('\n');
        }
        System.out.write(out.toString().getBytes(StandardCharsets.US_ASCII));
        System.out.flush();
    }

    private static void read(byte[] key, byte[] value, ObjectNode answer) throws ReflectiveOperationException {
        CoordinatorRecord record;
        try {
            record = SERDE.deserialize(ByteBuffer.wrap(key), value == null ? null : ByteBuffer.wrap(value));
        } catch (RuntimeException refused) {
            if (!refused.getClass().getSimpleName().equals("UnknownRecordVersionException"))
                throw refused;
            readAnyVersion(ByteBuffer.wrap(key).getShort(), ByteBuffer.wrap(value), answer);
            return;
        }
        Object read = record.key();  // with its version up to Kafka 4.0, without it since
        ApiMessage keyRead = read instanceof ApiMessageAndVersion ? ((ApiMessageAndVersion) read).message() : (ApiMessage) read;
        answer.set("key_read", json(keyRead, keyRead.highestSupportedVersion()));
        answer.put("key_written", text(SERDE.serializeKey(record)));
        if (record.value() != null) {
            tell(record.value().message(), record.value().version(), answer);
            if (record.value().message().unknownTaggedFields().isEmpty())
                writeAgain(record, answer);
        }
    }

    /** The serde reads unknown tagged fields in any order, in parts of a message as well, and writes them in theirs only. */
    private static void writeAgain(CoordinatorRecord record, ObjectNode answer) {
        try {
            answer.put("value_written", text(SERDE.serializeValue(record)));
        } catch (RuntimeException refused) {
            answer.put("not_written", refused.getMessage());
        }
    }

    private static void readAnyVersion(short type, ByteBuffer value, ObjectNode answer)
            throws ReflectiveOperationException {
        ApiMessage message = SERDE.value(type);
        short version = value.getShort();
        message.read(new ByteBufferAccessor(value), version);
        answer.put("unknown_version", true);
        tell(message, version, answer);
    }

    private static void tell(ApiMessage message, short version, ObjectNode answer) throws ReflectiveOperationException {
        answer.put("version", version);
        ArrayNode unknown = answer.putArray("unknown");
        for (RawTaggedField field : message.unknownTaggedFields())
            unknown.addObject().put("tag", field.tag()).put("data", text(field.data()));
        // Its nested converters refuse versions that nobody knows; beyond the newest they are all alike.
        short known = (short) Math.min(version, message.highestSupportedVersion());
        answer.set("value_read", json(message, known));
    }

    private static void write(JsonNode row, ObjectNode answer) throws ReflectiveOperationException {
        short version = row.get("version").shortValue();
        Class<?> kind = SERDE.value(row.get("type").shortValue()).getClass();
        Object message = converter(kind).getMethod("read", JsonNode.class, short.class)
            .invoke(null, row.get("fields"), version);
        answer.put("written", text(MessageUtil.toVersionPrefixedBytes(version, (ApiMessage) message)));
    }

    private static JsonNode json(ApiMessage message, short version) throws ReflectiveOperationException {
        return (JsonNode) converter(message.getClass()).getMethod("write", message.getClass(), short.class)
            .invoke(null, message, version);
    }

    private static Class<?> converter(Class<?> kind) throws ReflectiveOperationException {
        return Class.forName(kind.getName() + "JsonConverter");
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static String text(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }
}
