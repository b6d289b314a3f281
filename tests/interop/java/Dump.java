import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.disk.IOManagerImpl;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.system.SystemTableLoader;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;

/**
 * Reads and writes Paimon tables on the local disk for the interop check; one JVM run serves all requests.
 *
 * <p>Usage: {@code java Dump REQUESTS ANSWERS SPILL_DIR}, or {@code java Dump SPILL_DIR} to talk by standard
 * input and output. A request is one line of JSON:
 * {@code {"id": "a", "op": "read", "table": "/path", "options": {"scan.snapshot-id": "3"}}}, with
 * {@code "system": "files"} for a system table; it is answered by a line {@code {"id", "columns"}}, a line
 * {@code [kind, cell, ...]} per row and a line {@code {"id", "rows"}}. What {@link Peer} does is answered by
 * {@code {"id", "snapshot"}}; what Paimon refuses by {@code {"id", "error"}}.
 */
public final class Dump {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** System tables whose columns are those of the table itself. */
    private static final Set<String> ROWS = Set.of("audit_log", "binlog", "ro");

    private Dump() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 1) {
            talk(arguments[0]);
            return;
        }
        List<String> requests = Files.readAllLines(Paths.get(arguments[0]), StandardCharsets.UTF_8);
        try (BufferedWriter answers =
                Files.newBufferedWriter(Paths.get(arguments[1]), StandardCharsets.UTF_8)) {
            for (String line : requests) {
                JsonNode request = JSON.readTree(line);
                serve(request, answers, arguments[2]);
            }
        }
    }

    /** One request after another until the end of the input, each answered before the next is read. */
    private static void talk(String spill) throws Exception {
        PrintStream said = System.out;
        System.setOut(System.err); // what a library prints is no answer
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        BufferedWriter answers =
                new BufferedWriter(new OutputStreamWriter(said, StandardCharsets.UTF_8));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            serve(JSON.readTree(line), answers, spill);
            answers.flush();
        }
    }

    private static void serve(JsonNode request, BufferedWriter answers, String spill) {
        String id = request.get("id").asText();
        try {
            String op = request.get("op").asText();
            if (op.equals("read")) {
                read(request, answers, spill);
                return;
            }
            Long snapshot = null;
            Map<String, Object> more = Map.of();
            switch (op) {
                case "write":
                    snapshot = Peer.write(request, spill);
                    break;
                case "copy":
                    more = Peer.copy(request, spill);
                    break;
                case "lookup":
                    more = Lookups.lookup(request, spill, cells -> answer(answers, cells));
                    break;
                case "columns":
                    snapshot = RowIds.write(request);
                    break;
                case "overwrite":
                    snapshot = Peer.overwrite(request, spill);
                    break;
                case "compact":
                    snapshot = Peer.compact(request, spill);
                    break;
                case "drop":
                    snapshot = Peer.drop(request);
                    break;
                case "rescale":
                    snapshot = Peer.rescale(request, spill);
                    break;
                case "create":
                    Peer.create(request);
                    break;
                case "alter":
                    Peer.alter(request);
                    break;
                case "tag":
                    Peer.tag(request);
                    break;
                case "version":
                    snapshot = Versions.change(request);
                    break;
                case "statistics":
                    more = Versions.statistics(request);
                    break;
                case "partition_times":
                    more = Expiries.times(request);
                    break;
                case "expire_partitions":
                    more = Expiries.partitions(request);
                    break;
                case "automatic_tags":
                    more = Expiries.tags(request);
                    break;
                default:
                    throw new IllegalArgumentException("unknown op " + op);
            }
            Map<String, Object> done = new LinkedHashMap<>();
            done.put("id", id);
            done.put("snapshot", snapshot);
            done.putAll(more);
            answer(answers, done);
        } catch (Throwable failure) { // an error is an answer too: the check prints it
            answer(answers, Map.of("id", id, "error", reason(failure)));
        }
    }

    static FileStoreTable open(JsonNode request) {
        FileStoreTable table =
                FileStoreTableFactory.create(LocalFileIO.create(), new Path(request.get("table").asText()));
        Map<String, String> options = new HashMap<>();
        if (request.has("options")) {
            request.get("options").fields().forEachRemaining(e -> options.put(e.getKey(), e.getValue().asText()));
        }
        return options.isEmpty() ? table : table.copy(options);
    }

    private static void read(JsonNode request, BufferedWriter answers, String spill) throws Exception {
        String id = request.get("id").asText();
        Table table = open(request);
        if (request.has("system")) {
            table = SystemTableLoader.load(request.get("system").asText(), (FileStoreTable) table);
        }
        boolean isMetadata = request.has("system") && !ROWS.contains(request.get("system").asText());
        List<DataField> fields = table.rowType().getFields();
        List<String> columns = new ArrayList<>();
        List<Integer> shown = new ArrayList<>();
        for (int at = 0; at < fields.size(); at++) {
            // lists of a table of metadata have no cells, and are not compared
            if (!isMetadata || !(fields.get(at).type() instanceof ArrayType)) {
                shown.add(at);
                columns.add(fields.get(at).name());
            }
        }
        answer(answers, Map.of("id", id, "columns", columns));
        ReadBuilder builder = table.newReadBuilder();
        long[] rows = {0};
        try (IOManager io = new IOManagerImpl(spill);
                RecordReader<InternalRow> reader =
                        builder.newRead().withIOManager(io).createReader(builder.newScan().plan())) {
            reader.forEachRemaining(row -> {
                List<String> cells = new ArrayList<>(shown.size() + 1);
                cells.add(row.getRowKind().shortString());
                for (int at : shown) {
                    cells.add(Cells.encode(row, at, fields.get(at).type()));
                }
                answer(answers, cells);
                rows[0]++;
            });
        }
        answer(answers, Map.of("id", id, "rows", rows[0]));
    }

    private static void answer(BufferedWriter answers, Object value) {
        try {
            answers.write(JSON.writeValueAsString(value));
            answers.write('\n');
        } catch (java.io.IOException failure) {
            throw new java.io.UncheckedIOException(failure);
        }
    }

    /** A cell of a request as Paimon's value: null is null. */
    static Object value(JsonNode cell, DataType type) {
        return Cells.decode(cell.isNull() ? null : cell.asText(), type);
    }

    private static String reason(Throwable failure) {
        Throwable root = failure;
        while (root.getCause() != null) {
            root = root.getCause();
        }
        String outer = failure.getClass().getSimpleName() + ": " + failure.getMessage();
        return root == failure
                ? outer
                : outer + " <- " + root.getClass().getSimpleName() + ": " + root.getMessage();
    }
}
