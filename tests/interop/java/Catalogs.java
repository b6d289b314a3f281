import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.options.Options;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.view.View;
import org.apache.paimon.view.ViewChange;
import org.apache.paimon.view.ViewImpl;

/**
 * A catalog of Java's, one command a line: {@code open}, {@code list}, {@code create}, {@code write},
 * {@code rename}, {@code alter}, {@code drop}, {@code dropdb}, those of views; words are separated by tabs. Each answer
 * ends with a line {@code .} or {@code ! error}.
 */
final class Catalogs {
    private Catalogs() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Catalog catalog = null;
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split("\t");
            try {
                if (words[0].equals("open")) {
                    Options options = new Options();
                    for (String pair : Arrays.copyOfRange(words, 1, words.length)) {
                        int at = pair.indexOf('=');
                        options.set(pair.substring(0, at), pair.substring(at + 1));
                    }
                    catalog = CatalogFactory.createCatalog(CatalogContext.create(options));
                } else {
                    run(catalog, words);
                }
                System.out.println(".");
            } catch (Exception error) {
                Throwable cause = error;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                System.out.println("! " + String.valueOf(cause).replace('\n', ' '));
            }
            System.out.flush();
        }
    }

    private static void run(Catalog catalog, String[] words) throws Exception {
        switch (words[0]) {
            case "list":
                for (String database : catalog.listDatabases()) {
                    for (String table : catalog.listTables(database)) {
                        Identifier name = Identifier.create(database, table);
                        System.out.println(name.getFullName() + "\t" + rows(catalog.getTable(name)));
                    }
                    System.out.println(database);
                }
                break;
            case "create":
                Identifier created = Identifier.fromString(words[1]);
                catalog.createDatabase(created.getDatabaseName(), true);
                catalog.createTable(
                        created,
                        Schema.newBuilder()
                                .column("k", DataTypes.BIGINT().notNull())
                                .column("v", DataTypes.STRING())
                                .primaryKey("k")
                                .option("bucket", "1")
                                .build(),
                        false);
                break;
            case "write":
                BatchWriteBuilder builder =
                        catalog.getTable(Identifier.fromString(words[1])).newBatchWriteBuilder();
                try (BatchTableWrite write = builder.newWrite()) {
                    write.write(
                            GenericRow.of(
                                    Long.parseLong(words[2]), BinaryString.fromString(words[3])));
                    builder.newCommit().commit(write.prepareCommit());
                }
                break;
            case "rename":
                catalog.renameTable(
                        Identifier.fromString(words[1]), Identifier.fromString(words[2]), false);
                break;
            case "alter":
                catalog.alterTable(
                        Identifier.fromString(words[1]),
                        List.of(SchemaChange.setOption(words[2], words[3])),
                        false);
                break;
            case "drop":
                catalog.dropTable(Identifier.fromString(words[1]), false);
                break;
            case "dropdb":
                catalog.dropDatabase(words[1], false, true);
                break;
            case "views":
                for (String view : catalog.listViews(words[1])) {
                    View found = catalog.getView(Identifier.create(words[1], view));
                    System.out.println(
                            String.join(
                                    "\t",
                                    view,
                                    found.rowType().toString(),
                                    found.query(),
                                    String.valueOf(new TreeMap<>(found.dialects())),
                                    found.comment().orElse(""),
                                    String.valueOf(new TreeMap<>(found.options()))));
                }
                break;
            case "create-view":
                Identifier view = Identifier.fromString(words[1]);
                List<DataField> fields =
                        List.of(
                                new DataField(0, "k", DataTypes.INT().notNull()),
                                new DataField(1, "s", DataTypes.ARRAY(DataTypes.STRING())));
                Map<String, String> dialects = new HashMap<>();
                dialects.put("spark", words[3]);
                Map<String, String> options = new HashMap<>();
                options.put("a", "b");
                catalog.createView(
                        view, new ViewImpl(view, fields, words[2], dialects, words[4], options), false);
                break;
            case "add-dialect":
                catalog.alterView(
                        Identifier.fromString(words[1]),
                        List.of(ViewChange.addDialect(words[2], words[3])),
                        false);
                break;
            case "drop-view":
                catalog.dropView(Identifier.fromString(words[1]), false);
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static String rows(Table table) throws Exception {
        ReadBuilder builder = table.newReadBuilder();
        List<String> rows = new ArrayList<>();
        builder.newRead()
                .createReader(builder.newScan().plan())
                .forEachRemaining(row -> rows.add(row.getLong(0) + "=" + row.getString(1)));
        return rows.stream().sorted().collect(Collectors.joining(","));
    }
}
