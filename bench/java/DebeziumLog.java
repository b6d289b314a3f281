import io.debezium.embedded.Connect;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.RecordChangeEvent;
import io.debezium.engine.format.ChangeEventFormat;
import io.debezium.engine.format.Json;
import java.lang.management.ManagementFactory;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Debezium's embedded engine on a slot of PostgreSQL: seconds of each event, once it is warm.
 *
 * Arguments: port user password database publication slot warm count records|json. Its last line of
 * stdout is JSON: what the events after the first `warm` took, of `warm` + `count`, and the
 * sum of column b of all of them where they are records.
 */
public class DebeziumLog {
    private static final long WAIT_SECONDS_MAX = 300;

    private final int warm;
    private final int count;
    private int seen;
    private int skipped;
    private int counted;
    private long sum;
    private long cpuBegan;
    private long wallBegan;
    private long cpu;
    private long wall;
    private final CountDownLatch done = new CountDownLatch(1);
    private final AtomicReference<String> fault = new AtomicReference<>();

    DebeziumLog(int warm, int count) {
        this.warm = warm;
        this.count = count;
    }

    private static long cpuNanos() {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime();
    }

    private void see(int events) {
        seen += events;
        if (cpuBegan == 0 && seen >= warm) {
            cpuBegan = cpuNanos();
            wallBegan = System.nanoTime();
            skipped = seen;
        } else if (seen >= warm + count && done.getCount() > 0) {
            counted = seen - skipped;
            cpu = cpuNanos() - cpuBegan;
            wall = System.nanoTime() - wallBegan;
            done.countDown();
        }
    }

    public static void main(String[] a) throws Exception {
        Properties p = new Properties();
        p.setProperty("name", "bench");
        p.setProperty("connector.class", "io.debezium.connector.postgresql.PostgresConnector");
        p.setProperty("offset.storage", "org.apache.kafka.connect.storage.MemoryOffsetBackingStore");
        p.setProperty("offset.flush.interval.ms", "60000");
        p.setProperty("database.hostname", "127.0.0.1");
        p.setProperty("database.port", a[0]);
        p.setProperty("database.user", a[1]);
        p.setProperty("database.password", a[2]);
        p.setProperty("database.dbname", a[3]);
        p.setProperty("publication.name", a[4]);
        p.setProperty("publication.autocreate.mode", "disabled");
        p.setProperty("slot.name", a[5]);
        p.setProperty("plugin.name", "pgoutput");
        p.setProperty("topic.prefix", "bench");
        p.setProperty("snapshot.mode", "no_data");
        p.setProperty("table.include.list", "public.t");
        p.setProperty("max.batch.size", "8192");
        p.setProperty("max.queue.size", "32768");
        p.setProperty("key.converter.schemas.enable", "false");
        p.setProperty("value.converter.schemas.enable", "false");
        DebeziumLog log = new DebeziumLog(Integer.parseInt(a[6]), Integer.parseInt(a[7]));
        ExecutorService executor = Executors.newSingleThreadExecutor();
        boolean isJson = a[8].equals("json");
        DebeziumEngine<?> engine = isJson ? log.texts(p) : log.records(p);
        executor.execute(engine);
        boolean isDone = log.done.await(WAIT_SECONDS_MAX, java.util.concurrent.TimeUnit.SECONDS);
        String told = log.fault.get();
        if (!isDone || told != null) {
            System.err.println("seen " + log.seen + ": " + told);
            Runtime.getRuntime().halt(1);
        }
        System.out.printf(
                "{\"cpu\": %f, \"wall\": %f, \"events\": %d, \"sum\": %d}%n",
                log.cpu / 1e9, log.wall / 1e9, log.counted, log.sum);
        System.out.flush();
        Runtime.getRuntime().halt(0); // what it holds is the server's
    }

    private DebeziumEngine<?> texts(Properties p) {
        return DebeziumEngine.create(Json.class)
                .using(p)
                .notifying((List<ChangeEvent<String, String>> events,
                            DebeziumEngine.RecordCommitter<ChangeEvent<String, String>> committer) -> {
                    for (var event : events) {
                        committer.markProcessed(event);
                    }
                    committer.markBatchFinished();
                    see(events.size());
                })
                .using(this::ended)
                .build();
    }

    private DebeziumEngine<?> records(Properties p) {
        return DebeziumEngine.create(ChangeEventFormat.of(Connect.class))
                .using(p)
                .notifying((List<RecordChangeEvent<SourceRecord>> events,
                            DebeziumEngine.RecordCommitter<RecordChangeEvent<SourceRecord>> committer) -> {
                    for (var event : events) {
                        Struct after = ((Struct) event.record().value()).getStruct("after");
                        sum += after.getInt64("b");
                        committer.markProcessed(event);
                    }
                    committer.markBatchFinished();
                    see(events.size());
                })
                .using(this::ended)
                .build();
    }

    private void ended(boolean isSuccess, String message, Throwable error) {
        fault.set(message + " " + error);
        done.countDown();
    }
}
