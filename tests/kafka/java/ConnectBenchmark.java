package org.apache.kafka.connect.runtime.distributed;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.distributed.WorkerCoordinator.ConnectorsAndTasks;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * How fast Kafka's IncrementalCooperativeAssignor plans the round in which one more worker joins, on one thread.
 *
 * <p>Arguments: workers, connectors, tasks per connector, clusters. Every cluster has an assignor of its own, which has
 * given everything to all workers but the last; its second round, with the last one, is timed. It happens three times; the
 * last time, when all is compiled, counts. The answer is a line of JSON: {"seconds": of all clusters, "assigned": ...,
 * "revoked": items of all clusters}. In this package as the method that plans without a coordinator is visible only here.
 */
public class ConnectBenchmark {
    private static final int MAX_DELAY = 300_000;

    public static void main(String[] args) {
        int workers = Integer.parseInt(args[0]);
        int clusters = Integer.parseInt(args[3]);
        ClusterConfigState configured = configured(Integer.parseInt(args[1]), Integer.parseInt(args[2]));
        String answer = "";
        for (int repeat = 0; repeat < 3; repeat++) {
            answer = run(configured, workers, clusters);
        }
        System.out.println(answer);
    }

    private static String run(ClusterConfigState configured, int workers, int clusters) {
        List<IncrementalCooperativeAssignor> assignors = new ArrayList<>();
        List<Map<String, ConnectorsAndTasks>> reports = new ArrayList<>();
        for (int cluster = 0; cluster < clusters; cluster++) {
            IncrementalCooperativeAssignor assignor =
                new IncrementalCooperativeAssignor(new LogContext(), Time.SYSTEM, MAX_DELAY);
            Map<String, ConnectorsAndTasks> members = new HashMap<>();
            for (int worker = 1; worker < workers; worker++) {
                members.put(name(worker), new ConnectorsAndTasks.Builder().build());
            }
            IncrementalCooperativeAssignor.ClusterAssignment first =
                assignor.performTaskAssignment(configured, -1, 1, members);
            Map<String, ConnectorsAndTasks> reported = new HashMap<>();
            for (String worker : members.keySet()) {
                reported.put(worker, new ConnectorsAndTasks.Builder()
                    .with(first.newlyAssignedConnectors(worker), first.newlyAssignedTasks(worker)).build());
            }
            reported.put(name(workers), new ConnectorsAndTasks.Builder().build());
            assignors.add(assignor);
            reports.add(reported);
        }
        long assigned = 0;
        long revoked = 0;
        System.gc();
        long start = System.nanoTime();
        for (int cluster = 0; cluster < clusters; cluster++) {
            IncrementalCooperativeAssignor.ClusterAssignment second =
                assignors.get(cluster).performTaskAssignment(configured, 1, 2, reports.get(cluster));
            assigned += size(second.newlyAssignedConnectors()) + size(second.newlyAssignedTasks());
            revoked += size(second.newlyRevokedConnectors()) + size(second.newlyRevokedTasks());
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        return "{\"seconds\": " + seconds + ", \"assigned\": " + assigned + ", \"revoked\": " + revoked + "}";
    }

    private static long size(Map<String, ? extends Collection<?>> shares) {
        return shares.values().stream().mapToLong(Collection::size).sum();
    }

    private static String name(int worker) {
        return String.format("worker-%03d", worker);
    }

    private static ClusterConfigState configured(int connectors, int tasks) {
        Map<String, Integer> counts = new TreeMap<>();
        Map<String, Map<String, String>> configs = new HashMap<>();
        Map<ConnectorTaskId, Map<String, String>> taskConfigs = new HashMap<>();
        for (int number = 1; number <= connectors; number++) {
            String connector = String.format("connector-%02d", number);
            counts.put(connector, tasks);
            configs.put(connector, Map.of());
            for (int task = 0; task < tasks; task++) {
                taskConfigs.put(new ConnectorTaskId(connector, task), Map.of());
            }
        }
        return new ClusterConfigState(
            0, null, counts, configs, Map.of(), taskConfigs, Map.of(), Map.of(), Map.of(), Set.of(), Set.of());
    }
}
