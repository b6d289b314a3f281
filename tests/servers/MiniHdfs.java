import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.SafeModeAction;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;

/**
 * An HDFS in one process, on loopback: name nodes and a data node.
 *
 * <p>Arguments: its directory, and "ha" for two name nodes. Prints "UP" and the ports of the name
 * nodes when it answers. Then it obeys the lines of its input (see obey), and answers each with
 * "DONE" or "FAILED" and the reason. It ends with its input.
 */
public class MiniHdfs {
  private static final int BLOCK_BYTES = 1 << 20;
  private static MiniDFSCluster.DataNodeProperties stopped;

  public static void main(String[] args) throws Exception {
    boolean hasTwo = args.length > 1 && args[1].equals("ha");
    MiniDFSCluster cluster = started(args[0], hasTwo);
    cluster.getFileSystem(0).setPermission(new Path("/"), new FsPermission((short) 0777));
    StringBuilder ports = new StringBuilder("UP");
    for (int i = 0; i < cluster.getNumNameNodes(); i++) {
      ports.append(' ').append(cluster.getNameNodePort(i));
    }
    System.out.println(ports);
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      try {
        obey(cluster, line.split(" "));
        System.out.println("DONE");
      } catch (Exception error) {
        System.out.println("FAILED " + error.toString().replace('\n', ' '));
      }
    }
    Runtime.getRuntime().halt(0); // nothing of it is kept
  }

  private static MiniDFSCluster started(String directory, boolean hasTwo) throws Exception {
    Configuration conf = new HdfsConfiguration();
    conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, directory);
    conf.setInt("dfs.blocksize", BLOCK_BYTES); // so that files of tests have several
    conf.setInt("dfs.replication", 1);
    conf.setInt("dfs.ha.tail-edits.period", 1);
    MiniDFSCluster.Builder builder =
        new MiniDFSCluster.Builder(conf).numDataNodes(1).checkExitOnShutdown(false);
    if (hasTwo) {
      builder.nnTopology(MiniDFSNNTopology.simpleHATopology());
    }
    MiniDFSCluster cluster = builder.build();
    if (hasTwo) {
      cluster.transitionToActive(0);
    }
    cluster.waitActive(0);
    return cluster;
  }

  private static void obey(MiniDFSCluster cluster, String[] words) throws Exception {
    switch (words[0]) {
      case "safemode": // enter or leave
        cluster.getFileSystem(0).setSafeMode(SafeModeAction.valueOf(words[1].toUpperCase()));
        break;
      case "quota": // of a directory: names, bytes
        long names = Long.parseLong(words[2]);
        cluster.getFileSystem(0).setQuota(new Path(words[1]), names, Long.parseLong(words[3]));
        break;
      case "lease": // ms after which a dead writer's file may be taken, and is closed
        cluster.setLeasePeriod(Long.parseLong(words[1]), Long.parseLong(words[2]));
        break;
      case "restart":
        cluster.restartNameNode(0);
        break;
      case "failover": // from one name node to another
        cluster.transitionToStandby(Integer.parseInt(words[1]));
        cluster.transitionToActive(Integer.parseInt(words[2]));
        break;
      case "standby":
        cluster.transitionToStandby(Integer.parseInt(words[1]));
        break;
      case "active":
        cluster.transitionToActive(Integer.parseInt(words[1]));
        break;
      case "datanode": // stop or start
        if (words[1].equals("stop")) {
          stopped = cluster.stopDataNode(0);
        } else {
          cluster.restartDataNode(stopped, true);
          cluster.waitActive();
        }
        break;
      default:
        throw new IllegalArgumentException(words[0]);
    }
  }
}
