import java.util.ArrayList;
import java.util.List;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.RowType;

/** Writes rows with their ids, and columns of rows that are there, for {@link Dump}. */
final class RowIds {
    private RowIds() {}

    /**
     * {@code {"op": "columns", "columns": [name, ...], "first": id or null, "rows": [[cell, ...], ...]}}: one
     * commit of a file with these columns; {@code _ROW_ID} and {@code _SEQUENCE_NUMBER} may be among them.
     */
    static Long write(JsonNode request) throws Exception {
        FileStoreTable table = Dump.open(request);
        RowType all = OfVersion.withIds(table.rowType());
        List<DataField> fields = new ArrayList<>();
        request.get("columns").forEach(name -> fields.add(all.getField(name.asText())));
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite();
                BatchTableCommit commit = builder.newCommit()) {
            write.withWriteType(new RowType(fields));
            for (JsonNode cells : request.get("rows")) {
                GenericRow row = new GenericRow(fields.size());
                for (int at = 0; at < fields.size(); at++) {
                    JsonNode cell = cells.get(at);
                    row.setField(at, cell.isNull() ? null : Cells.decode(cell.asText(), fields.get(at).type()));
                }
                write.write(row);
            }
            List<CommitMessage> messages = write.prepareCommit();
            if (!request.path("first").isNull()) {
                for (CommitMessage message : messages) {
                    List<DataFileMeta> files = ((CommitMessageImpl) message).newFilesIncrement().newFiles();
                    List<DataFileMeta> numbered = new ArrayList<>();
                    files.forEach(file -> numbered.add(file.assignFirstRowId(request.get("first").asLong())));
                    files.clear();
                    files.addAll(numbered);
                }
            }
            commit.commit(messages);
        }
        return table.snapshotManager().latestSnapshotId();
    }
}
