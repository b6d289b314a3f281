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
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.disk.IOManagerImpl;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.manifest.BucketEntry;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.schema.SchemaManager;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.RowPartitionKeyExtractor;
import org.apache.paimon.table.sink.StreamTableCommit;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.sink.StreamWriteBuilder;
import org.apache.paimon.table.sink.TableWrite;
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
        List<DataField> fields = new ArrayList<>();
        for (JsonNode column : request.get("columns")) {
            fields.add(new DataField(fields.size(), column.get(0).asText(),
                    DataTypeJsonParser.parseDataType(column.get(1))));
        }
        schemas(request).createTable(new Schema(fields, texts(request.get("partition_keys")),
                texts(request.get("primary_keys")), map(request.get("options")), ""));
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
            feed(table, write, request.get("rows"), user);
            commit.commit(1, write.prepareCommit(true, 1));
        }
        return latest(table);
    }

    /** {@code {"op": "overwrite", "rows", "partition": {name: text}}}: dynamic where the options say so. */
    static Long overwrite(JsonNode request, String spill) throws Exception {
        FileStoreTable table = Dump.open(request);
        BatchWriteBuilder builder = table.newBatchWriteBuilder().withOverwrite(map(request.get("partition")));
        try (IOManager io = new IOManagerImpl(spill);
                BatchTableWrite write = builder.newWrite();
                BatchTableCommit commit = builder.newCommit()) {
            write.withIOManager(io);
            feed(table, write, request.get("rows"), "interop-" + request.get("id").asText());
            commit.commit(write.prepareCommit());
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
        String name = change.has("name") ? change.get("name").asText() : null;
        String[] path = {name};
        switch (change.get("change").asText()) {
            case "add":
                return SchemaChange.addColumn(name, DataTypeJsonParser.parseDataType(change.get("type")), null,
                        move(change));
            case "drop":
                return SchemaChange.dropColumn(name);
            case "rename":
                return SchemaChange.renameColumn(name, change.get("to").asText());
            case "retype":
                return SchemaChange.updateColumnType(
                        name, DataTypeJsonParser.parseDataType(change.get("type")), true);
            case "nullable":
                return SchemaChange.updateColumnNullability(name, change.get("to").asBoolean());
            case "move":
                return SchemaChange.updateColumnPosition(move(change));
            case "default":
                return SchemaChange.updateColumnDefaultValue(path, change.get("to").asText());
            case "comment":
                return SchemaChange.updateColumnComment(name, change.get("to").asText());
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

    private static SchemaChange.Move move(JsonNode change) {
        String name = change.get("name").asText();
        if (change.has("after")) {
            return SchemaChange.Move.after(name, change.get("after").asText());
        }
        return change.has("first") ? SchemaChange.Move.first(name) : null;
    }

    /** Writes the rows; under dynamic buckets each goes where the index has its key, or to a bucket with room. */
    private static void feed(FileStoreTable table, TableWrite write, JsonNode rows, String user) throws Exception {
        List<DataField> fields = table.rowType().getFields();
        HashBucketAssigner assigner = null;
        RowPartitionKeyExtractor keys = null;
        if (table.bucketMode() == BucketMode.HASH_DYNAMIC) {
            assigner = new HashBucketAssigner(table.snapshotManager(), user, table.store().newIndexFileHandler(),
                    1, 1, 0, table.coreOptions().dynamicBucketTargetRowNum(),
                    table.coreOptions().dynamicBucketMaxBuckets());
            keys = new RowPartitionKeyExtractor(table.schema());
        }
        for (JsonNode cells : rows) {
            GenericRow row = new GenericRow(RowKind.fromShortString(cells.get(0).asText()), fields.size());
            for (int at = 0; at < fields.size(); at++) {
                row.setField(at, Dump.value(cells.get(at + 1), fields.get(at).type()));
            }
            if (assigner == null) {
                write.write(row);
            } else {
                BinaryRow partition = keys.partition(row).copy();
                write.write(row, assigner.assign(partition, keys.trimmedPrimaryKey(row).hashCode()));
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
