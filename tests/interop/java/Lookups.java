import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.disk.IOManagerImpl;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.query.LocalTableQuery;
import org.apache.paimon.table.sink.RowKeyExtractor;
import org.apache.paimon.types.DataField;

/**
 * Rows by key from Java Paimon's {@code LocalTableQuery}:
 * {@code {"op": "lookup", "keys": [[cell, ...], ...], "snapshot": 3, "times": 1}}, keys in the order of the primary
 * key. It is given the files of each bucket at that snapshot. Every key is answered by the cells of its row, or
 * by an empty list where it has none. The last line says how many files lay on level 0, which Java does not look
 * at in a table that needs lookups, and what each of the given number of rounds took.
 *
 * <p>Java asks one bucket. Where the key alone does not tell which, all that may hold it are asked.
 */
final class Lookups {
    private Lookups() {}

    static Map<String, Object> lookup(JsonNode request, String spill, Consumer<List<String>> answers)
            throws Exception {
        FileStoreTable table = Dump.open(request);
        Map<BinaryRow, Map<Integer, List<DataFileMeta>>> files = new HashMap<>();
        long level0 = 0;
        for (ManifestEntry entry : table.store().newScan().withSnapshot(request.get("snapshot").asLong())
                .plan().files()) {
            files.computeIfAbsent(entry.partition(), any -> new HashMap<>())
                    .computeIfAbsent(entry.bucket(), any -> new ArrayList<>()).add(entry.file());
            level0 += entry.file().level() == 0 ? 1 : 0;
        }
        try (IOManager io = new IOManagerImpl(spill);
                LocalTableQuery query = table.newLocalTableQuery().withIOManager(io)) {
            files.forEach((partition, buckets) ->
                    buckets.forEach((bucket, of) -> query.refreshFiles(partition, bucket, List.of(), of)));
            List<Question> questions = questions(table, request.get("keys"), files);
            OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
            InternalRow[] found = new InternalRow[questions.size()];
            List<Double> cpu = new ArrayList<>();
            List<Double> wall = new ArrayList<>();
            for (int round = 0; round < request.get("times").asInt(); round++) {
                long cpuBegan = system.getProcessCpuTime();
                long wallBegan = System.nanoTime();
                for (int at = 0; at < found.length; at++) {
                    found[at] = questions.get(at).ask(query);
                }
                cpu.add((system.getProcessCpuTime() - cpuBegan) / 1e9);
                wall.add((System.nanoTime() - wallBegan) / 1e9);
            }
            List<DataField> fields = table.rowType().getFields();
            for (InternalRow row : found) {
                List<String> cells = new ArrayList<>();
                for (int at = 0; row != null && at < fields.size(); at++) {
                    cells.add(Cells.encode(row, at, fields.get(at).type()));
                }
                answers.accept(cells);
            }
            return Map.of("level0", level0, "cpu", cpu, "wall", wall);
        }
    }

    /** A key, and the buckets that may hold it. */
    private static final class Question {
        final BinaryRow key;
        final List<BinaryRow> partitions = new ArrayList<>();
        final List<Integer> buckets = new ArrayList<>();

        Question(BinaryRow key) {
            this.key = key;
        }

        void in(BinaryRow partition, int bucket) {
            partitions.add(partition);
            buckets.add(bucket);
        }

        InternalRow ask(LocalTableQuery query) throws java.io.IOException {
            InternalRow found = null;
            for (int at = 0; at < buckets.size(); at++) {
                InternalRow row = query.lookup(partitions.get(at), buckets.get(at), key);
                if (row != null && found != null) {
                    throw new IllegalStateException("two buckets have the same key");
                }
                found = row == null ? found : row;
            }
            return found;
        }
    }

    private static List<Question> questions(FileStoreTable table, JsonNode keys,
            Map<BinaryRow, Map<Integer, List<DataFileMeta>>> files) {
        RowKeyExtractor extractor = table.createRowKeyExtractor();
        List<String> names = table.primaryKeys();
        int[] places = names.stream().mapToInt(table.rowType()::getFieldIndex).toArray();
        List<DataField> fields = table.rowType().getFields();
        BucketMode mode = table.bucketMode();
        List<Question> out = new ArrayList<>();
        for (JsonNode cells : keys) {
            GenericRow row = new GenericRow(fields.size());
            for (int at = 0; at < places.length; at++) {
                row.setField(places[at], Dump.value(cells.get(at), fields.get(places[at]).type()));
            }
            extractor.setRecord(row);
            Question question = new Question(extractor.trimmedPrimaryKey().copy());
            if (mode == BucketMode.HASH_FIXED) {
                question.in(extractor.partition().copy(), extractor.bucket());
            } else if (mode == BucketMode.HASH_DYNAMIC) {
                BinaryRow partition = extractor.partition().copy();
                files.getOrDefault(partition, Map.of()).keySet().forEach(bucket -> question.in(partition, bucket));
            } else {
                files.forEach((partition, of) -> of.keySet().forEach(bucket -> question.in(partition, bucket)));
            }
            out.add(question);
        }
        return out;
    }
}
