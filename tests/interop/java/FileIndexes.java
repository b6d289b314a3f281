import java.io.BufferedWriter;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.fileindex.FileIndexFormat;
import org.apache.paimon.fileindex.FileIndexPredicate;
import org.apache.paimon.fileindex.FileIndexResult;
import org.apache.paimon.fileindex.FileIndexWriter;
import org.apache.paimon.fileindex.FileIndexer;
import org.apache.paimon.fileindex.bitmap.BitmapIndexResult;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.DecimalType;
import org.apache.paimon.types.RowType;

/**
 * Makes file indexes with Java Paimon and asks Java Paimon's readers about indexes; one JSON object a line.
 *
 * <p>Usage: {@code java FileIndexes REQUESTS ANSWERS}. {@code {"op": "write", "column", "type", "kind",
 * "options", "values"}} gives {@code {"index": hex, "container": hex}}; {@code {"op": "ask", "column", "type",
 * "container": hex, "predicates": [[op, cell, ...], ...]}} gives {@code {"answers": [...]}}, where an answer
 * is "skip", "remain" or the positions that are left. Cells: null, a boolean, a number (floats: their bits; decimals:
 * unscaled), a text (binaries: hex), [ms, nanos] for timestamps.
 */
public final class FileIndexes {
    private static final ObjectMapper JSON = new ObjectMapper();

    private FileIndexes() {}

    public static void main(String[] arguments) throws Exception {
        List<String> requests = Files.readAllLines(Paths.get(arguments[0]), StandardCharsets.UTF_8);
        try (BufferedWriter answers =
                Files.newBufferedWriter(Paths.get(arguments[1]), StandardCharsets.UTF_8)) {
            for (String line : requests) {
                JsonNode request = JSON.readTree(line);
                Map<String, Object> answer;
                try {
                    answer = request.get("op").asText().equals("write") ? write(request) : ask(request);
                } catch (Throwable failure) { // an error is an answer too
                    answer = Map.of("error", String.valueOf(failure));
                }
                answers.write(JSON.writeValueAsString(answer));
                answers.write("\n");
            }
        }
    }

    private static Map<String, Object> write(JsonNode request) throws Exception {
        DataType type = DataTypeJsonParser.parseAtomicTypeSQLString(request.get("type").asText());
        Options options = new Options();
        request.get("options")
                .fields()
                .forEachRemaining(option -> options.set(option.getKey(), option.getValue().asText()));
        String kind = request.get("kind").asText();
        FileIndexWriter writer = FileIndexer.create(kind, type, options).createWriter();
        for (JsonNode cell : request.get("values")) {
            writer.writeRecord(value(cell, type));
        }
        byte[] index = writer.serializedBytes();
        java.io.ByteArrayOutputStream container = new java.io.ByteArrayOutputStream();
        try (FileIndexFormat.Writer format = FileIndexFormat.createWriter(container)) {
            Map<String, byte[]> kinds = new LinkedHashMap<>();
            kinds.put(kind, index);
            Map<String, Map<String, byte[]>> columns = new LinkedHashMap<>();
            columns.put(request.get("column").asText(), kinds);
            format.writeColumnIndexes(columns);
        }
        Map<String, Object> answer = new HashMap<>();
        answer.put("index", hex(index));
        answer.put("container", hex(container.toByteArray()));
        return answer;
    }

    private static Map<String, Object> ask(JsonNode request) throws Exception {
        DataType type = DataTypeJsonParser.parseAtomicTypeSQLString(request.get("type").asText());
        RowType row = RowType.of(new DataField(0, request.get("column").asText(), type));
        byte[] container = bytes(request.get("container").asText());
        List<Object> answers = new ArrayList<>();
        for (JsonNode asked : request.get("predicates")) {
            try (FileIndexPredicate index = new FileIndexPredicate(container, row)) {
                FileIndexResult result = index.evaluate(predicate(asked, row, type));
                if (!result.remain()) {
                    answers.add("skip");
                } else if (result instanceof BitmapIndexResult) {
                    List<Integer> positions = new ArrayList<>();
                    ((BitmapIndexResult) result).get().iterator().forEachRemaining(positions::add);
                    answers.add(positions);
                } else {
                    answers.add("remain");
                }
            }
        }
        Map<String, Object> answer = new HashMap<>();
        answer.put("answers", answers);
        return answer;
    }

    private static Predicate predicate(JsonNode asked, RowType row, DataType type) {
        PredicateBuilder builder = new PredicateBuilder(row);
        List<Object> literals = new ArrayList<>();
        for (int i = 1; i < asked.size(); i++) {
            literals.add(value(asked.get(i), type));
        }
        switch (asked.get(0).asText()) {
            case "==":
                return builder.equal(0, literals.get(0));
            case "!=":
                return builder.notEqual(0, literals.get(0));
            case "<":
                return builder.lessThan(0, literals.get(0));
            case "<=":
                return builder.lessOrEqual(0, literals.get(0));
            case ">":
                return builder.greaterThan(0, literals.get(0));
            case ">=":
                return builder.greaterOrEqual(0, literals.get(0));
            case "in":
                return builder.in(0, literals);
            case "is null":
                return builder.isNull(0);
            case "is not null":
                return builder.isNotNull(0);
            default:
                throw new IllegalArgumentException(asked.toString());
        }
    }

    private static Object value(JsonNode cell, DataType type) {
        if (cell.isNull()) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return cell.asBoolean();
            case TINYINT:
                return (byte) cell.asInt();
            case SMALLINT:
                return (short) cell.asInt();
            case INTEGER:
            case DATE:
            case TIME_WITHOUT_TIME_ZONE:
                return cell.asInt();
            case BIGINT:
                return cell.asLong();
            case FLOAT:
                return Float.intBitsToFloat(cell.asInt());
            case DOUBLE:
                return Double.longBitsToDouble(cell.asLong());
            case CHAR:
            case VARCHAR:
                return BinaryString.fromString(cell.asText());
            case BINARY:
            case VARBINARY:
                return bytes(cell.asText());
            case DECIMAL:
                DecimalType decimal = (DecimalType) type;
                return Decimal.fromUnscaledBytes(
                        new BigInteger(cell.asText()).toByteArray(),
                        decimal.getPrecision(),
                        decimal.getScale());
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return Timestamp.fromEpochMillis(cell.get(0).asLong(), cell.get(1).asInt());
            default:
                throw new IllegalArgumentException(type.toString());
        }
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte b : bytes) {
            text.append(String.format("%02x", b));
        }
        return text.toString();
    }

    private static byte[] bytes(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }
}
