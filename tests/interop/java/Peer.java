import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.paimon.AppendOnlyFileStore;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.crosspartition.GlobalIndexAssigner;
import org.apache.paimon.crosspartition.IndexBootstrap;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.disk.IOManagerImpl;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.manifest.BucketEntry;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.schema.SchemaManager;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.SpecialFields;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.RowPartitionKeyExtractor;
import org.apache.paimon.table.sink.StreamTableCommit;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.sink.StreamWriteBuilder;
import org.apache.paimon.table.sink.TableWrite;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.RowKind;

/**
 * What Java Paimon does to a table when another engine asks for it: the requests of {@link Dump} that
 * change something. Each gives the newest snapshot's id, or null on a table without any.
 *
 * <p>Columns are {@code [name, type]} pairs, types and cells those of schema files and of {@link Cells}.
 */
final class Peer {
    private Peer() {}

    /** {@code {"op": "create", "columns", "primary_keys", "partition_keys", "options"}}. */
    static void create(JsonNode request) throws Exception {
        Schema.Builder schema = Schema.newBuilder(); // it numbers the fields inside rows too
        for (JsonNode column : request.get("columns")) {
            schema.column(column.get(0).asText(), DataTypeJsonParser.parseDataType(column.get(1)));
        }
        schemas(request).createTable(schema.partitionKeys(texts(request.get("partition_keys")))
                .primaryKey(texts(request.get("primary_keys"))).options(map(request.get("options"))).build());
    }

    /** {@code {"op": "write", "rows": [[kind, cell, ...], ...]}}: one commit. */
    static Long write(JsonNode request, String spill) throws Exception {
        FileStoreTable table = Dump.open(request);
        String user = "interop-" + request.get("id").asText();
        StreamWriteBuilder builder = table.newStreamWriteBuilder().withCommitUser(user);
        try (IOManager io = new IOManagerImpl(spill);
                StreamTableWrite write = builder.newWrite();
                StreamTableCommit commit = builder.newCommit()) {
            write.withIOManager(io);
            feed(table, write, rows(table, request.get("rows")), user, io, false);
            commit.commit(1, write.prepareCommit(true, 1));
        }
        return latest(table);
    }

    /**
     * {@code {"op": "copy", "from": "/path", "keep": true, "full": false}}: the rows of another table, held in
     * memory, in one commit; how long that took. With {@code keep} the writer stays open for the next one, as
     * that of a running job does; with {@code full} a full compaction of every bucket goes with the commit,
     * which is what Flink's sink adds for {@code full-compaction.delta-commits} = 1.
     */
    static Map<String, Object> copy(JsonNode request, String spill) throws Exception {
        FileStoreTable source = FileStoreTableFactory.create(
                LocalFileIO.create(), new Path(request.get("from").asText()));
        List<InternalRow> rows = new ArrayList<>();
        InternalRowSerializer copies = new InternalRowSerializer(source.rowType());
        ReadBuilder reads = source.newReadBuilder();
        try (RecordReader<InternalRow> reader = reads.newRead().createReader(reads.newScan().plan())) {
            reader.forEachRemaining(row -> rows.add(copies.copy(row)));
        }
        String place = request.get("table").asText();
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long cpu = system.getProcessCpuTime();
        long wall = System.nanoTime();
        Session session = SESSIONS.containsKey(place) ? SESSIONS.get(place) : new Session(Dump.open(request), spill);
        for (InternalRow row : rows) {
            session.write.write(row);
        }
        if (request.get("full").asBoolean()) {
            for (BucketEntry entry : new LinkedHashSet<>(Dump.open(request).newSnapshotReader().bucketEntries())) {
                session.write.compact(entry.partition(), entry.bucket(), true);
            }
        }
        session.commit.commit(session.number, session.write.prepareCommit(true, session.number));
        session.number++;
        if (request.get("keep").asBoolean()) {
            SESSIONS.put(place, session);
        } else {
            SESSIONS.remove(place);
            session.close();
        }
        return Map.of("rows", rows.size(), "cpu", (system.getProcessCpuTime() - cpu) / 1e9,
                "wall", (System.nanoTime() - wall) / 1e9);
    }

    private static final Map<String, Session> SESSIONS = new HashMap<>();

    /** A writer that commits more than once. */
    private static final class Session implements AutoCloseable {
        final IOManager io;
        final StreamTableWrite write;
        final StreamTableCommit commit;
        long number = 1;

        Session(FileStoreTable table, String spill) {
            StreamWriteBuilder builder =
                    table.newStreamWriteBuilder().withCommitUser("copy-" + System.nanoTime());
            io = new IOManagerImpl(spill);
            write = builder.newWrite();
            write.withIOManager(io);
            commit = builder.newCommit();
        }

        @Override
        public void close() throws Exception {
            write.close();
            commit.close();
            io.close();
        }
    }

    /** {@code {"op": "overwrite", "rows", "partition": {name: text}}}: dynamic where the options say so. */
    static Long overwrite(JsonNode request, String spill) throws Exception {
        FileStoreTable table = Dump.open(request);
        BatchWriteBuilder builder = table.newBatchWriteBuilder().withOverwrite(map(request.get("partition")));
        try (IOManager io = new IOManagerImpl(spill);
                BatchTableWrite write = builder.newWrite();
                BatchTableCommit commit = builder.newCommit()) {
            write.withIOManager(io);
            feed(table, write, rows(table, request.get("rows")), "interop-" + request.get("id").asText(), io, true);
            commit.commit(write.prepareCommit());
        }
        return latest(table);
    }

    /** {@code {"op": "drop", "partitions": [{name: text}]}}. */
    static Long drop(JsonNode request) throws Exception {
        FileStoreTable table = Dump.open(request);
        List<Map<String, String>> partitions = new ArrayList<>();
        request.get("partitions").forEach(each -> partitions.add(map(each)));
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            commit.truncatePartitions(partitions);
        }
        return latest(table);
    }

    /** {@code {"op": "rescale", "buckets"}}: the option, then the whole table written anew, as its users do. */
    static Long rescale(JsonNode request, String spill) throws Exception {
        schemas(request).commitChanges(SchemaChange.setOption("bucket", request.get("buckets").asText()));
        FileStoreTable table = Dump.open(request).copy(Map.of("dynamic-partition-overwrite", "false"));
        if (latest(table) == null) {
            return null;
        }
        List<InternalRow> rows = new ArrayList<>();
        InternalRowSerializer copies = new InternalRowSerializer(table.rowType());
        ReadBuilder reads = table.newReadBuilder();
        BatchWriteBuilder builder = table.newBatchWriteBuilder().withOverwrite();
        try (IOManager io = new IOManagerImpl(spill)) {
            try (RecordReader<InternalRow> reader =
                    reads.newRead().withIOManager(io).createReader(reads.newScan().plan())) {
                reader.forEachRemaining(row -> rows.add(copies.copy(row)));
            }
            try (BatchTableWrite write = builder.newWrite();
                    BatchTableCommit commit = builder.newCommit()) {
                write.withIOManager(io);
                for (InternalRow row : rows) {
                    write.write(row);
                }
                commit.commit(write.prepareCommit());
            }
        }
        return latest(table);
    }

    /** {@code {"op": "compact", "full"}}: every bucket there is. */
    static Long compact(JsonNode request, String spill) throws Exception {
        FileStoreTable table = Dump.open(request);
        String user = "interop-" + request.get("id").asText();
        if (latest(table) == null) {
            return null; // Java's coordinator of append tables fails on a table without snapshots
        }
        if (table.bucketMode() == BucketMode.BUCKET_UNAWARE) {
            List<CommitMessage> messages = new ArrayList<>();
            BaseAppendFileStoreWrite write = ((AppendOnlyFileStore) table.store()).newWrite(user);
            if (table.coreOptions().rowTrackingEnabled()) { // as Flink's and Spark's compactions do
                write.withWriteType(SpecialFields.rowTypeWithRowTracking(table.rowType()));
            }
            try {
                for (AppendCompactTask task : new AppendCompactCoordinator(table, false).run()) {
                    messages.add(task.doCompact(table, write));
                }
            } finally {
                write.close();
            }
            try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
                commit.commit(messages);
            }
            return latest(table);
        }
        Set<BucketEntry> buckets = new LinkedHashSet<>(table.newSnapshotReader().bucketEntries());
        StreamWriteBuilder builder = table.newStreamWriteBuilder().withCommitUser(user);
        try (IOManager io = new IOManagerImpl(spill);
                StreamTableWrite write = builder.newWrite();
                StreamTableCommit commit = builder.newCommit()) {
            write.withIOManager(io);
            for (BucketEntry entry : buckets) {
                write.compact(entry.partition(), entry.bucket(), request.get("full").asBoolean());
            }
            commit.commit(1, write.prepareCommit(true, 1));
        }
        return latest(table);
    }

    /** {@code {"op": "alter", "changes": [{"change": "add", ...}, ...]}}: all of them as one schema. */
    static void alter(JsonNode request) throws Exception {
        List<SchemaChange> changes = new ArrayList<>();
        for (JsonNode change : request.get("changes")) {
            changes.add(change(change));
        }
        schemas(request).commitChanges(changes);
    }

    /** {@code {"op": "tag", "name", "snapshot"}}. */
    static void tag(JsonNode request) {
        Dump.open(request).createTag(request.get("name").asText(), request.get("snapshot").asLong());
    }

    private static SchemaChange change(JsonNode change) {
        String[] path = path(change.get("name"));
        String name = path == null ? null : path[path.length - 1];
        switch (change.get("change").asText()) {
            case "add":
                return SchemaChange.addColumn(path, DataTypeJsonParser.parseDataType(change.get("type")), null,
                        move(change, name));
            case "drop":
                return SchemaChange.dropColumn(path);
            case "rename":
                return SchemaChange.renameColumn(path, change.get("to").asText());
            case "retype":
                return SchemaChange.updateColumnType(
                        path, DataTypeJsonParser.parseDataType(change.get("type")), true);
            case "nullable":
                return SchemaChange.updateColumnNullability(path, change.get("to").asBoolean());
            case "move":
                return SchemaChange.updateColumnPosition(move(change, name));
            case "default":
                return SchemaChange.updateColumnDefaultValue(path, change.get("to").asText());
            case "comment":
                return SchemaChange.updateColumnComment(path, change.get("to").asText());
            case "table-comment":
                return SchemaChange.updateComment(change.get("to").asText());
            case "set":
                return SchemaChange.setOption(name, change.get("to").asText());
            case "reset":
                return SchemaChange.removeOption(name);
            default:
                throw new IllegalArgumentException("unknown change " + change);
        }
    }

    private static SchemaChange.Move move(JsonNode change, String name) {
        if (change.has("after")) {
            return SchemaChange.Move.after(name, change.get("after").asText());
        }
        return change.has("first") ? SchemaChange.Move.first(name) : null;
    }

    /** A column's name, or the way to a field inside one. */
    private static String[] path(JsonNode name) {
        if (name == null) {
            return null;
        }
        return name.isArray() ? texts(name).toArray(new String[0]) : new String[] {name.asText()};
    }

    private static List<InternalRow> rows(FileStoreTable table, JsonNode rows) {
        List<DataField> fields = table.rowType().getFields();
        List<InternalRow> out = new ArrayList<>();
        for (JsonNode cells : rows) {
            GenericRow row = new GenericRow(RowKind.fromShortString(cells.get(0).asText()), fields.size());
            for (int at = 0; at < fields.size(); at++) {
                row.setField(at, Dump.value(cells.get(at + 1), fields.get(at).type()));
            }
            out.add(row);
        }
        return out;
    }

    /**
     * Writes the rows. Under dynamic buckets each goes where the index has its key, or to a bucket with room;
     * where keys move between partitions, Paimon's own index over the whole table says where a key was.
     */
    private static void feed(FileStoreTable table, TableWrite write, List<InternalRow> rows, String user, IOManager io,
            boolean overwrite) throws Exception {
        if (table.bucketMode() == BucketMode.KEY_DYNAMIC) {
            feedMoving(table, write, rows, io, overwrite);
            return;
        }
        if (table.bucketMode() != BucketMode.HASH_DYNAMIC) {
            for (InternalRow row : rows) {
                write.write(row);
            }
            return;
        }
        HashBucketAssigner assigner = new HashBucketAssigner(table.snapshotManager(), user,
                table.store().newIndexFileHandler(), 1, 1, 0, table.coreOptions().dynamicBucketTargetRowNum(),
                table.coreOptions().dynamicBucketMaxBuckets());
        RowPartitionKeyExtractor keys = new RowPartitionKeyExtractor(table.schema());
        for (InternalRow row : rows) {
            BinaryRow partition = keys.partition(row).copy();
            write.write(row, assigner.assign(partition, keys.trimmedPrimaryKey(row).hashCode()));
        }
    }

    private static void feedMoving(FileStoreTable table, TableWrite write, List<InternalRow> rows, IOManager io,
            boolean overwrite) throws Exception {
        try (GlobalIndexAssigner assigner = new GlobalIndexAssigner(table)) {
            OfVersion.open(assigner, io, (row, bucket) -> {
                try {
                    write.write(row, bucket);
                } catch (Exception failure) {
                    throw new RuntimeException(failure);
                }
            });
            if (!overwrite) { // what is replaced holds no keys
                new IndexBootstrap(table).bootstrap(1, 0, key -> {
                    try {
                        assigner.bootstrapKey(key);
                    } catch (java.io.IOException failure) {
                        throw new java.io.UncheckedIOException(failure);
                    }
                });
            }
            assigner.endBoostrap(false);
            for (InternalRow row : rows) {
                assigner.processInput(row);
            }
        }
    }

    private static Long latest(FileStoreTable table) {
        return table.snapshotManager().latestSnapshotId();
    }

    private static SchemaManager schemas(JsonNode request) throws Exception {
        String place = request.get("table").asText();
        Files.createDirectories(java.nio.file.Paths.get(place));
        return new SchemaManager(LocalFileIO.create(), new Path(place));
    }

    private static List<String> texts(JsonNode node) {
        List<String> out = new ArrayList<>();
        if (node != null) {
            node.forEach(each -> out.add(each.asText()));
        }
        return out;
    }

    private static Map<String, String> map(JsonNode node) {
        Map<String, String> out = new LinkedHashMap<>();
        if (node != null) {
            node.fields().forEachRemaining(e -> out.put(e.getKey(), e.getValue().asText()));
        }
        return out;
    }
}
