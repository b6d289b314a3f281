import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.paimon.consumer.Consumer;
import org.apache.paimon.consumer.ConsumerManager;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.operation.LocalOrphanFilesClean;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.stats.ColStats;
import org.apache.paimon.stats.Statistics;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;

/** What Java Paimon does to the versions of a table, for {@link Dump}: tags, rollback, expiry and the like. */
final class Versions {
    private Versions() {}

    /** {@code {"op": "version", "do": what, ...}}; the newest snapshot's id. */
    static Long change(JsonNode request) throws Exception {
        FileStoreTable table = Dump.open(request);
        String name = request.path("name").asText();
        switch (request.get("do").asText()) {
            case "create_tag":
                table.createTag(name, request.get("snapshot").asLong(), Duration.ofHours(1));
                break;
            case "delete_tag":
                table.deleteTag(name);
                break;
            case "rename_tag":
                table.renameTag(name, request.get("to").asText());
                break;
            case "replace_tag":
                table.replaceTag(name, request.get("snapshot").asLong(), null);
                break;
            case "rollback":
                if (request.has("snapshot")) {
                    table.rollbackTo(request.get("snapshot").asLong());
                } else {
                    table.rollbackTo(name);
                }
                break;
            case "expire":
                ExpireConfig.Builder expiry = ExpireConfig.builder()
                        .snapshotRetainMax(request.path("keeps").asInt(1))
                        .snapshotRetainMin(1)
                        .snapshotTimeRetain(request.has("keeps") ? Duration.ofDays(1) : Duration.ZERO);
                if (request.path("keepsChangelogs").asBoolean()) {
                    expiry.changelogRetainMax(100).changelogRetainMin(100)
                            .changelogTimeRetain(Duration.ofDays(1));
                }
                table.newExpireSnapshots().config(expiry.build()).expire();
                break;
            case "expire_changelogs":
                table.newExpireChangelog().config(ExpireConfig.builder()
                        .changelogRetainMax(request.get("keeps").asInt()).changelogRetainMin(1)
                        .changelogTimeRetain(Duration.ofDays(1)).build()).expire();
                break;
            case "purge":
                table.purgeFiles();
                break;
            case "remove_orphans":
                new LocalOrphanFilesClean(table).clean();
                break;
            case "branch":
                table.createBranch(name, request.get("tag").asText());
                break;
            case "fast_forward":
                table.fastForward(name);
                break;
            case "consumer":
                new ConsumerManager(table.fileIO(), table.location())
                        .resetConsumer(name, new Consumer(request.get("snapshot").asLong()));
                break;
            case "compact_manifest":
                try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
                    commit.compactManifests();
                }
                break;
            case "analyze":
                analyze(table);
                break;
            default:
                throw new IllegalArgumentException("unknown " + request);
        }
        return table.snapshotManager().latestSnapshotId();
    }

    /** Statistics of made-up values, of columns k BIGINT, v STRING and t TIMESTAMP(3). */
    private static void analyze(FileStoreTable table) throws Exception {
        Map<String, ColStats<?>> columns = new HashMap<>();
        columns.put("k", ColStats.newColStats(0, 3L, 1L, 9L, 0L, 8L, 8L));
        columns.put("v", ColStats.newColStats(1, 2L, BinaryString.fromString("a"),
                BinaryString.fromString("z\"\u00fc"), 1L, 4L, 7L));
        columns.put("t", ColStats.newColStats(2, null, Timestamp.fromEpochMillis(-1),
                Timestamp.fromEpochMillis(1_700_000_000_000L), null, null, null));
        long snapshot = table.snapshotManager().latestSnapshotId();
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            commit.updateStatistics(new Statistics(snapshot, table.schema().id(), 5L, 100L, columns));
        }
    }

    /** {@code {"op": "statistics"}}: what Java makes of a table's statistics, as one text. */
    static Map<String, Object> statistics(JsonNode request) {
        Statistics found = Dump.open(request).statistics().get();
        StringBuilder columns = new StringBuilder();
        found.colStats().entrySet().stream().sorted(Map.Entry.comparingByKey()).forEach(e -> {
            ColStats<?> c = e.getValue();
            columns.append(String.format("%s %d %s %s %s %s %s %s;", e.getKey(), c.colId(),
                    text(c.distinctCount()), c.min().map(Object::toString).orElse("-"),
                    c.max().map(Object::toString).orElse("-"), text(c.nullCount()), text(c.avgLen()),
                    text(c.maxLen())));
        });
        return Map.of("text", String.format("%d %d %s %s %s", found.snapshotId(), found.schemaId(),
                text(found.mergedRecordCount()), text(found.mergedRecordSize()), columns));
    }

    private static String text(java.util.OptionalLong count) {
        return count.isPresent() ? String.valueOf(count.getAsLong()) : "-";
    }
}
