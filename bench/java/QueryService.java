import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.disk.IOManagerImpl;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.query.QueryLocationImpl;
import org.apache.paimon.service.ServiceManager;
import org.apache.paimon.service.client.KvQueryClient;
import org.apache.paimon.service.network.stats.DisabledServiceRequestStats;
import org.apache.paimon.service.server.KvQueryServer;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.query.LocalTableQuery;
import org.apache.paimon.table.sink.RowKeyExtractor;

/**
 * Java Paimon's own query service, without Flink: its server over a {@code LocalTableQuery}, with one thread for
 * the network and one for queries as its Flink job has it, and its client in the same process.
 *
 * <p>Usage: {@code java QueryService.java TABLE SPILL ROWS SEED}. Commands on the standard input, each answered by
 * seconds: {@code single N CALLERS} gets N keys, {@code batch N SIZE} asks N batches, {@code lone N} is the
 * median of N gets by one caller, {@code local N} gets N keys from the {@code LocalTableQuery} itself, in seconds of
 * CPU. Keys are even numbers below twice the rows, those that are odd have no row.
 */
public final class QueryService {
    private final FileStoreTable table;
    private final LocalTableQuery query;
    private final KvQueryClient client;
    private final int rows;
    private final Random draw;

    private QueryService(FileStoreTable table, LocalTableQuery query, KvQueryClient client, int rows, long seed) {
        this.table = table;
        this.query = query;
        this.client = client;
        this.rows = rows;
        this.draw = new Random(seed);
    }

    public static void main(String[] arguments) throws Throwable {
        FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(arguments[0]));
        LocalTableQuery query = table.newLocalTableQuery().withIOManager(new IOManagerImpl(arguments[1]));
        Map<BinaryRow, Map<Integer, List<DataFileMeta>>> files = new HashMap<>();
        for (ManifestEntry entry : table.store().newScan().plan().files()) {
            files.computeIfAbsent(entry.partition(), any -> new HashMap<>())
                    .computeIfAbsent(entry.bucket(), any -> new ArrayList<>()).add(entry.file());
        }
        files.forEach((partition, buckets) ->
                buckets.forEach((bucket, of) -> query.refreshFiles(partition, bucket, List.of(), of)));
        KvQueryServer server = new KvQueryServer(0, 1, "127.0.0.1", Collections.singletonList(0).iterator(), 1, 1,
                query, new DisabledServiceRequestStats());
        server.start();
        ServiceManager services = table.store().newServiceManager();
        services.resetService(ServiceManager.PRIMARY_KEY_LOOKUP,
                new java.net.InetSocketAddress[] {server.getServerAddress()});
        KvQueryClient client = new KvQueryClient(new QueryLocationImpl(services), 1);
        QueryService asked = new QueryService(
                table, query, client, Integer.parseInt(arguments[2]), Long.parseLong(arguments[3]));
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            System.out.println(asked.answer(line.split(" ")));
        }
        client.shutdown();
        server.shutdown();
        System.exit(0);
    }

    private double answer(String[] command) throws Exception {
        int count = Integer.parseInt(command[1]);
        switch (command[0]) {
            case "single":
                return single(questions(count), Integer.parseInt(command[2]));
            case "batch":
                return batches(count, Integer.parseInt(command[2]));
            case "lone":
                return lone(questions(count));
            case "local":
                return local(questions(count));
            default:
                throw new IllegalArgumentException(command[0]);
        }
    }

    /** A key, its number and where it lies. */
    private static final class Question {
        final long number;
        final BinaryRow partition;
        final int bucket;
        final BinaryRow key;

        Question(long number, RowKeyExtractor extractor) {
            this.number = number;
            GenericRow row = new GenericRow(4);
            row.setField(0, number);
            extractor.setRecord(row);
            partition = extractor.partition().copy();
            bucket = extractor.bucket();
            key = extractor.trimmedPrimaryKey().copy();
        }

        void check(org.apache.paimon.data.InternalRow found) {
            boolean isThere = number % 2 == 0;
            if (isThere != (found != null)
                    || isThere && !found.getString(3).toString().equals(String.format("%016d", number / 2))) {
                throw new IllegalStateException("key " + number + " has the row " + found);
            }
        }
    }

    private List<Question> questions(int count) {
        RowKeyExtractor extractor = table.createRowKeyExtractor();
        List<Question> out = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            out.add(new Question(draw.nextInt(2 * rows), extractor));
        }
        return out;
    }

    private double single(List<Question> questions, int callers) throws Exception {
        List<Thread> threads = new ArrayList<>();
        Throwable[] failed = new Throwable[1];
        long began = System.nanoTime();
        for (int caller = 0; caller < callers; caller++) {
            int first = caller;
            Thread thread = new Thread(() -> {
                try {
                    for (int at = first; at < questions.size(); at += callers) {
                        get(questions.get(at));
                    }
                } catch (Throwable failure) {
                    failed[0] = failure;
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        if (failed[0] != null) {
            throw new IllegalStateException(failed[0]);
        }
        return (System.nanoTime() - began) / 1e9;
    }

    private void get(Question one) throws Exception {
        one.check(client.getValues(one.partition, one.bucket, new BinaryRow[] {one.key}).get()[0]);
    }

    private double lone(List<Question> questions) throws Exception {
        long[] taken = new long[questions.size()];
        for (int at = 0; at < taken.length; at++) {
            long began = System.nanoTime();
            get(questions.get(at));
            taken[at] = System.nanoTime() - began;
        }
        Arrays.sort(taken);
        return taken[taken.length / 2] / 1e9;
    }

    /** A call asks one bucket: a batch is as many calls as it has buckets, sent at once. */
    private double batches(int count, int size) throws Exception {
        List<List<List<Question>>> all = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            Map<Integer, List<Question>> buckets = new HashMap<>();
            for (Question one : questions(size)) {
                buckets.computeIfAbsent(one.bucket, any -> new ArrayList<>()).add(one);
            }
            all.add(new ArrayList<>(buckets.values()));
        }
        long began = System.nanoTime();
        for (List<List<Question>> buckets : all) {
            List<java.util.concurrent.CompletableFuture<BinaryRow[]>> sent = new ArrayList<>();
            for (List<Question> of : buckets) {
                BinaryRow[] keys = of.stream().map(one -> one.key).toArray(BinaryRow[]::new);
                sent.add(client.getValues(of.get(0).partition, of.get(0).bucket, keys));
            }
            for (int at = 0; at < sent.size(); at++) {
                BinaryRow[] found = sent.get(at).get();
                for (int key = 0; key < found.length; key++) {
                    buckets.get(at).get(key).check(found[key]);
                }
            }
        }
        return (System.nanoTime() - began) / 1e9;
    }

    private double local(List<Question> questions) throws Exception {
        java.lang.management.ThreadMXBean threads = java.lang.management.ManagementFactory.getThreadMXBean();
        long began = threads.getCurrentThreadCpuTime();
        for (Question one : questions) {
            one.check(query.lookup(one.partition, one.bucket, one.key));
        }
        return (threads.getCurrentThreadCpuTime() - began) / 1e9;
    }
}
