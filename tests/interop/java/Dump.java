import java.io.BufferedWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.data.GenericRow;
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
import org.apache.paimon.table.sink.StreamTableCommit;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.sink.StreamWriteBuilder;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.RowKind;

/**
 * Reads and writes Paimon tables on the local disk for the interop check; one JVM run serves all requests.
 *
 * <p>Usage: {@code java Dump REQUESTS ANSWERS SPILL_DIR}. REQUESTS has one JSON object a line:
 * {@code {"id": "a", "op": "read", "table": "/path", "options": {"scan.snapshot-id": "3"}}} or
 * {@code {"id": "b", "op": "write", "table": "/path", "rows": [["+I", cell, ...], ...]}}. ANSWERS gets, for each
 * request in order, one line {@code {"id", "columns"}}, one line {@code [kind, cell, ...]} per row and
 * one line {@code {"id", "rows"}}; or, where Paimon refuses, {@code {"id", "error"}}.
 */
public final class Dump {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Dump() {}

    public static void main(String[] arguments) throws Exception {
        List<String> requests = Files.readAllLines(Paths.get(arguments[0]), StandardCharsets.UTF_8);
        try (BufferedWriter answers =
                Files.newBufferedWriter(Paths.get(arguments[1]), StandardCharsets.UTF_8)) {
            for (String line : requests) {
                JsonNode request = JSON.readTree(line);
                String id = request.get("id").asText();
                try {
                    if (request.get("op").asText().equals("write")) {
                        write(request, answers, arguments[2]);
                    } else {
                        read(request, answers, arguments[2]);
                    }
                } catch (Throwable failure) { // an error is an answer too: the check prints it
                    answer(answers, Map.of("id", id, "error", reason(failure)));
                }
            }
        }
    }

    private static FileStoreTable open(JsonNode request) {
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
        FileStoreTable table = open(request);
        List<DataField> fields = table.rowType().getFields();
        List<String> columns = new ArrayList<>();
        fields.forEach(field -> columns.add(field.name()));
        answer(answers, Map.of("id", id, "columns", columns));
        ReadBuilder builder = table.newReadBuilder();
        long[] rows = {0};
        try (IOManager io = new IOManagerImpl(spill);
                RecordReader<InternalRow> reader =
                        builder.newRead().withIOManager(io).createReader(builder.newScan().plan())) {
            reader.forEachRemaining(row -> {
                List<String> cells = new ArrayList<>(fields.size() + 1);
                cells.add(row.getRowKind().shortString());
                for (int at = 0; at < fields.size(); at++) {
                    cells.add(Cells.encode(row, at, fields.get(at).type()));
                }
                answer(answers, cells);
                rows[0]++;
            });
        }
        answer(answers, Map.of("id", id, "rows", rows[0]));
    }

    private static void write(JsonNode request, BufferedWriter answers, String spill) throws Exception {
        String id = request.get("id").asText();
        FileStoreTable table = open(request);
        List<DataField> fields = table.rowType().getFields();
        StreamWriteBuilder builder = table.newStreamWriteBuilder().withCommitUser("interop-" + id);
        long rows = 0;
        try (IOManager io = new IOManagerImpl(spill);
                StreamTableWrite write = builder.newWrite();
                StreamTableCommit commit = builder.newCommit()) {
            write.withIOManager(io);
            for (JsonNode cells : request.get("rows")) {
                GenericRow row = new GenericRow(RowKind.fromShortString(cells.get(0).asText()), fields.size());
                for (int at = 0; at < fields.size(); at++) {
                    JsonNode cell = cells.get(at + 1);
                    row.setField(at, Cells.decode(cell.isNull() ? null : cell.asText(), fields.get(at).type()));
                }
                write.write(row);
                rows++;
            }
            commit.commit(1, write.prepareCommit(true, 1));
        }
        Map<String, Object> done = new LinkedHashMap<>();
        done.put("id", id);
        done.put("rows", rows);
        done.put("snapshot", table.snapshotManager().latestSnapshotId());
        answer(answers, done);
    }

    private static void answer(BufferedWriter answers, Object value) {
        try {
            answers.write(JSON.writeValueAsString(value));
            answers.write('\n');
        } catch (java.io.IOException failure) {
            throw new java.io.UncheckedIOException(failure);
        }
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
