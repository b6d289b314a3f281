import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.FileSystemCatalog;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.fs.FileIO;
import org.apache.paimon.fs.Path;
import org.apache.paimon.options.Options;
import org.apache.paimon.partition.Partition;
import org.apache.paimon.rest.RESTCatalog;
import org.apache.paimon.rest.RESTCatalogServer;
import org.apache.paimon.rest.RESTToken;
import org.apache.paimon.rest.auth.BearTokenAuthProvider;
import org.apache.paimon.rest.responses.ConfigResponse;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.RowType;

/**
 * Java Paimon's own REST catalog server (of its tests), and Java's client of it: a request per line, JSON, an
 * answer per line. The first line of the output is the server's address.
 *
 * <p>Arguments: the directory of the files, the bearer token; perhaps the URI of the warehouse in another storage. The
 * server makes its catalog of local files, so that is replaced.
 */
public final class RestPeer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String WAREHOUSE = "lake";

    private RestPeer() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        Map<String, String> defaults = Map.of("prefix", "paimon");
        RESTCatalogServer server = new RESTCatalogServer(arguments[0], new BearTokenAuthProvider(arguments[1]),
                new ConfigResponse(defaults, Map.of()), WAREHOUSE);
        if (arguments.length > 2) {
            Path place = new Path(arguments[2]);
            FileIO files = FileIO.get(place, CatalogContext.create(new Options()));
            Field catalog = RESTCatalogServer.class.getDeclaredField("catalog");
            catalog.setAccessible(true);
            catalog.set(server, new FileSystemCatalog(files, place, new Options()));
        }
        server.start();
        answers.println(JSON.writeValueAsString(Map.of("url", server.getUrl())));
        Options options = new Options();
        options.set("uri", server.getUrl());
        options.set("warehouse", WAREHOUSE);
        options.set("token.provider", "bear");
        options.set("token", arguments[1]);
        options.set("metastore", "rest");
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (Catalog catalog = new RESTCatalog(CatalogContext.create(options))) {
            for (String line = requests.readLine(); line != null; line = requests.readLine()) {
                Map<String, Object> answer = new LinkedHashMap<>();
                try {
                    answer.put("answer", answer(server, catalog, JSON.readTree(line)));
                } catch (Throwable error) {
                    error.printStackTrace();
                    answer.put("error", String.valueOf(error));
                }
                answers.println(JSON.writeValueAsString(answer));
            }
        }
        server.shutdown();
    }

    private static Object answer(RESTCatalogServer server, Catalog catalog, JsonNode request) throws Exception {
        Identifier name = request.has("table") ? Identifier.fromString(request.get("table").asText()) : null;
        switch (request.get("op").asText()) {
            case "create":
                Schema.Builder schema = Schema.newBuilder();
                for (JsonNode column : request.get("columns")) {
                    schema.column(column.get(0).asText(), DataTypeJsonParser.parseDataType(column.get(1)));
                }
                catalog.createDatabase(name.getDatabaseName(), true);
                catalog.createTable(name, schema.primaryKey(texts(request.get("primary_keys")))
                        .partitionKeys(texts(request.get("partition_keys")))
                        .options(JSON.convertValue(request.get("options"), Map.class)).build(), false);
                return null;
            case "write":
                write(catalog.getTable(name), request.get("rows"));
                return null;
            case "read":
                return read(catalog.getTable(name));
            case "add":
                catalog.alterTable(name, List.of(SchemaChange.addColumn(request.get("column").asText(),
                        DataTypeJsonParser.parseDataType(request.get("type")))), false);
                return null;
            case "databases":
                return catalog.listDatabases();
            case "tables":
                return catalog.listTables(request.get("database").asText());
            case "drop":
                catalog.dropTable(name, false);
                return null;
            case "snapshot":
                return catalog.loadSnapshot(name).get().snapshot().id();
            case "branches":
                return catalog.listBranches(name);
            case "tag":
                catalog.getTable(name).createTag(request.get("tag").asText());
                return null;
            case "branch":
                catalog.getTable(name).createBranch(request.get("branch").asText(), request.get("tag").asText());
                return null;
            case "forward":
                catalog.getTable(name).fastForward(request.get("branch").asText());
                return null;
            case "unbranch":
                catalog.getTable(name).deleteBranch(request.get("branch").asText());
                return null;
            case "partitions":
                List<Object> partitions = new ArrayList<>();
                for (Partition partition : catalog.listPartitions(name)) {
                    partitions.add(List.of(partition.spec(), partition.recordCount(), partition.fileCount()));
                }
                return partitions;
            case "vend":
                long expiresAtMillis = System.currentTimeMillis() + request.get("life_ms").asLong();
                server.setDataToken(name, new RESTToken(JSON.convertValue(request.get("keys"), Map.class),
                        expiresAtMillis));
                return expiresAtMillis;
            case "fail after the next commit":
                RESTCatalogServer.commitSuccessThrowException = true;
                return null;
            default:
                throw new IllegalArgumentException(request.toString());
        }
    }

    private static void write(Table table, JsonNode rows) throws Exception {
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            List<DataType> types = table.rowType().getFieldTypes();
            for (JsonNode row : rows) {
                Object[] cells = new Object[types.size()];
                for (int i = 0; i < cells.length; i++) {
                    cells[i] = cell(types.get(i), row.get(i));
                }
                write.write(GenericRow.of(cells));
            }
            commit.commit(write.prepareCommit());
        }
    }

    private static Object cell(DataType type, JsonNode value) {
        if (value == null || value.isNull()) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case BIGINT:
                return value.asLong();
            case INTEGER:
                return value.asInt();
            default:
                return BinaryString.fromString(value.asText());
        }
    }

    private static List<List<Object>> read(Table table) throws Exception {
        RowType type = table.rowType();
        InternalRow.FieldGetter[] getters = new InternalRow.FieldGetter[type.getFieldCount()];
        for (int i = 0; i < getters.length; i++) {
            getters[i] = InternalRow.createFieldGetter(type.getTypeAt(i), i);
        }
        ReadBuilder reads = table.newReadBuilder();
        List<List<Object>> rows = new ArrayList<>();
        reads.newRead().createReader(reads.newScan().plan()).forEachRemaining(row -> {
            List<Object> cells = new ArrayList<>();
            for (InternalRow.FieldGetter getter : getters) {
                Object value = getter.getFieldOrNull(row);
                cells.add(value instanceof BinaryString ? value.toString() : value);
            }
            rows.add(cells);
        });
        return rows;
    }

    private static List<String> texts(JsonNode names) {
        List<String> texts = new ArrayList<>();
        names.forEach(name -> texts.add(name.asText()));
        return texts;
    }
}
