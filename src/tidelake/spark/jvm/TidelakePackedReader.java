package org.apache.spark.sql.execution.datasources;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.FileSourceOptions;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap$;
import org.apache.spark.sql.execution.FileSourceScanExec;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/**
 * Spark's scan of files with tasks that we pack; of the driver alone.
 *
 * See tidelake.spark.catalog.scans.scan_rule.
 */
public final class TidelakePackedReader extends FileSourceScanExec {
  private final FileSourceScanExec scan;
  private final transient TidelakeListedFiles listed;
  private transient RDD rows;

  public TidelakePackedReader(FileSourceScanExec scan) {
    super((HadoopFsRelation) scan.productElement(0), scan.stream(), scan.output(),
        scan.requiredSchema(), scan.partitionFilters(), scan.optionalBucketSet(),
        scan.optionalNumCoalescedBuckets(), scan.dataFilters(), scan.tableIdentifier(),
        true);  // Spark 4.0 to 4.2
        true, false);  // Spark 4.3
    this.scan = scan;
    listed = (TidelakeListedFiles) ((HadoopFsRelation) scan.productElement(0)).location();
  }

  public Map metrics() { return scan.metrics(); }
  public Map driverMetrics() { return scan.driverMetrics(); }

  public synchronized RDD inputRDD() {
    if (rows == null) {
      FileScanRDD packed = (FileScanRDD) super.inputRDD();
      HadoopFsRelation relation = (HadoopFsRelation) productElement(0);
      Seq tasks = packed.filePartitions();
      rows = new FileScanRDD(relation.sparkSession(),
          packed.org$apache$spark$sql$execution$datasources$FileScanRDD$$readFunction,
          listed.isByBucket() ? listed.byBucket(tasks) : listed.even(tasks),
          packed.readSchema(), packed.metadataColumns(),
          packed.org$apache$spark$sql$execution$datasources$FileScanRDD$$metadataExtractors,
          new FileSourceOptions(
              CaseInsensitiveMap$.MODULE$.apply(relation.options())));
    }
    return rows;
  }

  // a task that reads row by row gets the plan with its code, and knows Spark's scan alone
  protected Object writeReplace() { return scan; }
}
