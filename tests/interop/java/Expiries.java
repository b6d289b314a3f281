import java.time.LocalDateTime;
import java.time.format.DateTimeParseException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.paimon.operation.PartitionExpire;
import org.apache.paimon.partition.PartitionTimeExtractor;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.table.FileStoreTable;

/** Which partitions Java Paimon finds too old and by which times, and which tags it makes. */
final class Expiries {
    private Expiries() {}

    /**
     * {@code {"op": "partition_times", "asked": [[pattern, formatter, [name, ...], [value, ...]], ...]}}: for each the
     * local time, {@code "-"} where the values say none, {@code "!"} where the formatter is refused.
     */
    static Map<String, Object> times(JsonNode request) {
        List<String> found = new ArrayList<>();
        for (JsonNode one : request.get("asked")) {
            found.add(time(one));
        }
        return Map.of("times", found);
    }

    private static String time(JsonNode one) {
        PartitionTimeExtractor extractor = new PartitionTimeExtractor(text(one.get(0)), text(one.get(1)));
        List<String> names = new ArrayList<>();
        List<String> values = new ArrayList<>();
        one.get(2).forEach(name -> names.add(name.asText()));
        one.get(3).forEach(value -> values.add(value.asText()));
        try {
            return seconds(extractor.extract(names, values));
        } catch (DateTimeParseException failure) {
            return "-";
        } catch (IllegalArgumentException | ClassCastException failure) {
            return "!";
        }
    }

    private static String seconds(LocalDateTime time) {
        return time.toLocalDate().toEpochDay() + " " + time.toLocalTime().toNanoOfDay();
    }

    /** {@code {"op": "expire_partitions"}}, with the options of the request: the partitions that were dropped. */
    static Map<String, Object> partitions(JsonNode request) {
        FileStoreTable table = Dump.open(request);
        PartitionExpire expire = table.store().newPartitionExpire("expirer", table);
        List<Map<String, String>> dropped = expire.expire(Long.MAX_VALUE);
        return Map.of("partitions", dropped == null ? List.of() : dropped);
    }

    /** {@code {"op": "automatic_tags"}}, with the options of the request: the tags that are due, and all there are. */
    static Map<String, Object> tags(JsonNode request) {
        FileStoreTable table = Dump.open(request);
        table.newTagAutoManager().run();
        Map<String, Object> found = new TreeMap<>();
        table.tagManager().tagObjects().forEach(pair -> found.put(pair.getRight(), pair.getLeft().id()));
        return Map.of("tags", found);
    }

    private static String text(JsonNode node) {
        return node.isNull() ? null : node.asText();
    }
}
