import java.util.concurrent.ForkJoinPool;
import java.util.function.BiConsumer;
import org.apache.paimon.crosspartition.GlobalIndexAssigner;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.table.SpecialFields;
import org.apache.paimon.types.RowType;

/** What Paimon 2.1 calls otherwise than the other version that these programs are compiled against. */
final class OfVersion {
    private OfVersion() {}

    static void open(GlobalIndexAssigner assigner, IOManager io, BiConsumer<InternalRow, Integer> collector)
            throws Exception {
        assigner.open(0, ForkJoinPool.commonPool(), io, 1, 0, collector);
    }

    /** The columns with a row's id and sequence number, which a row need not have. */
    static RowType withIds(RowType rowType) {
        return SpecialFields.rowTypeWithRowTracking(rowType, true, true);
    }
}
