import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * HDFS and YARN on loopback ports: `HadoopCluster FOLDER NODES MEMORY_MB`, in the folder in which they keep their files.
 *
 * <p>Writes the configuration for clients to FOLDER as core-site.xml and yarn-site.xml, prints "ready", and ends when
 * standard input does.
 */
public final class HadoopCluster {
    public static void main(String[] arguments) {
        try {
            run(Path.of(arguments[0]), Integer.parseInt(arguments[1]), arguments[2]);
            System.exit(0);
        } catch (Throwable failure) { // threads that have started would keep the process alive
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private static void run(Path folder, int nodeManagers, String memory) throws Exception {
        Configuration conf = new YarnConfiguration();
        conf.setInt("dfs.replication", 1);
        conf.set("hadoop.tmp.dir", folder.resolve("tmp").toString());
        conf.set("yarn.nodemanager.resource.memory-mb", memory);
        conf.set("yarn.nodemanager.resource.cpu-vcores", "8");
        conf.set("yarn.scheduler.minimum-allocation-mb", "128");
        conf.set("yarn.scheduler.capacity.root.queues", "default");
        conf.set("yarn.scheduler.capacity.root.default.capacity", "100");
        conf.set("yarn.scheduler.capacity.maximum-am-resource-percent", "0.5");
        // The machine of a test is no node of a cluster: its disk may be nearly full.
        conf.set("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "99.9");
        // Logs of containers stay for the test to read.
        conf.set("yarn.nodemanager.delete.debug-delay-sec", "3600");
        MiniDFSCluster files = new MiniDFSCluster.Builder(conf, folder.resolve("hdfs").toFile()).build();
        conf.set("fs.defaultFS", files.getURI().toString());
        MiniYARNCluster nodes = new MiniYARNCluster("yarn", nodeManagers, 1, 1);
        nodes.init(conf);
        nodes.start();
        // What it sets for itself, with a class that clients lack.
        Configuration clients = new Configuration(nodes.getConfig());
        clients.unset("net.topology.node.switch.mapping.impl");
        for (String name : new String[] {"core-site.xml", "yarn-site.xml"}) {
            try (OutputStream out = Files.newOutputStream(folder.resolve(name))) {
                clients.writeXml(out);
            }
        }
        System.out.println("ready");
        while (System.in.read() >= 0) {}
        nodes.stop();
        files.shutdown();
    }
}
