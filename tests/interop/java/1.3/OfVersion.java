import java.util.function.BiConsumer;
import org.apache.paimon.crosspartition.GlobalIndexAssigner;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;

/** What Paimon 1.3.1 calls otherwise than the other version that these programs are compiled against. */
final class OfVersion {
    private OfVersion() {}

    static void open(GlobalIndexAssigner assigner, IOManager io, BiConsumer<InternalRow, Integer> collector)
            throws Exception {
        assigner.open(0, io, 1, 0, collector);
    }
}
