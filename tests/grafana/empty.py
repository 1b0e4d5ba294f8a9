"""Queries that find nothing unless a condition holds.

If the condition holds (for example, the machine has a GPU), the queries must find data. Otherwise
they must find nothing: an exclusion that is not needed fails.
"""

from typing import Final

MAY_BE_EMPTY: Final[dict[str, tuple[str, ...]]] = {
    # The machine has GPUs.
    "mlbench_gpu_utilization_ratio": (
        "mlbench-run / GPU use",
        "mlbench-run / Ranks / gpu",
        "mlbench-run / GPU memory",
        "mlbench-run / GPU power",
        "mlbench-workers / Worker pods / gpu",
        "mlbench-workers / GPU use",
        "mlbench-workers / GPU memory",
        "mlbench-workers / GPU power",
    ),
    # Network usage is known per worker, which is not the case if workers share a machine's network.
    "container_network_receive_bytes_total": (
        "mlbench-run / Received",
        "mlbench-run / Sent",
        "mlbench-workers / Network by worker",
    ),
    # Workers have a CPU limit, as in a cluster.
    "container_cpu_cfs_periods_total": (
        "mlbench-workers / Nodes / limited",
        "mlbench-workers / CPU throttling by worker",
        "mlbench-workers / Cores lost to the CPU limit by worker",
    ),
    # The kernel reports the pressure of the machine, and of each container.
    "mlbench_node_pressure_seconds_total": (
        "mlbench-workers / Nodes / waits_cpu",
        "mlbench-workers / Nodes / waits_memory",
        "mlbench-workers / Nodes / waits_io",
        "mlbench-workers / Resource pressure by node",
    ),
    "container_pressure_cpu_waiting_seconds_total": ("mlbench-workers / CPU pressure by worker",),
    'mlbench_worker_pressure_seconds_total{of="pod"}': ("mlbench-run / Resource pressure",),
    "mlbench_worker_throttled_seconds_total": ("mlbench-run / Cores lost to the CPU limit",),
    # Workers have a memory limit, as in a cluster.
    "container_spec_memory_limit_bytes": ("mlbench-workers / Memory by worker / B",),
    # An alert fires.
    'ALERTS{run_id="$run_id",alertname="MLBenchLossNotFinite"}': (
        "mlbench-run / annotation Loss not finite",
    ),
    'ALERTS{alertname=~"MLBench.*",alertstate="firing"}': (
        "mlbench-stack / Firing alerts / since",
    ),
    'ALERTS{alertname=~"MLBench.*",alertstate="firing",run_id!=""}': (
        "mlbench-stack / Firing alerts / from",
        "mlbench-stack / Firing alerts / to",
    ),
    # The run, or one of the runs, has reached its target.
    'mlbench_run_target_reached_timestamp_seconds{run_id="$run_id"}': (
        "mlbench-run / annotation Target reached",
        "mlbench-run / Target / C",
    ),
    # A user or the master has requested a hang diagnosis of the run, or of one of the runs.
    'mlbench_run_diagnosis_timestamp_seconds{run_id="$run_id"}': (
        "mlbench-run / annotation Hang diagnosis",
    ),
    'mlbench_run_diagnosis_timestamp_seconds{run_id=~"$run_id"}': (
        "mlbench-compare / annotation Hang diagnosis",
    ),
    # A rank of the ended run holds up the others. The final ratio is stored after the view's end.
    'last_over_time(mlbench_run_straggler_ratio{run_id="$run_id"}[1m] offset -1m)'
    ' or mlbench_run_state{run_id="$run_id",state="STARTED"} == 1': (
        "mlbench-run / Ranks / ratio",
    ),
    'last_over_time(ALERTS{run_id="$run_id",alertstate="firing"}[$__range])': (
        "mlbench-run / Alerts",
        "mlbench-run / Alerts over time",
    ),
    'mlbench_run_target_reached_timestamp_seconds{run_id=~"$run_id"}': (
        "mlbench-compare / annotation Target reached",
        "mlbench-compare / Time to target (training)",
        "mlbench-compare / Compared runs / time_to_target",
        "mlbench-compare / Compared runs / since_start",
    ),
    # The run, or one of the runs, has ended.
    'mlbench_run_finished_timestamp_seconds{run_id="$run_id"}': (
        "mlbench-run / annotation Run ended",
    ),
    'mlbench_run_finished_timestamp_seconds{run_id=~"$run_id"}': (
        "mlbench-compare / annotation Run ended",
        "mlbench-compare / Compared runs / best",
        "mlbench-compare / Compared runs / contention",
    ),
    # The run is active.
    'mlbench_run_state{run_id="$run_id",state="STARTED"} == 1': (
        "mlbench-run / Progress / C",
        "mlbench-run / Ranks / age",
    ),
    # A run is active or queued at the end of the time range.
    'mlbench_run_state{state="STARTED"} == 1': (
        "mlbench-runs / Active run and queue / progress",
        "mlbench-runs / Active run and queue / throughput",
        "mlbench-runs / Active run and queue / age",
    ),
    'mlbench_run_state{state=~"STARTED|INITIALIZED"} == 1': tuple(
        f"mlbench-runs / Active run and queue / {ref}"
        for ref in ("states", "elapsed", "workers", "since", "from", "to")
    ),
    # A worker has a run.
    'mlbench_worker_info{run_id!=""}': (
        "mlbench-workers / Worker pods / from",
        "mlbench-workers / Worker pods / to",
    ),
    # A scrape of a rank failed while the rank was running.
    '(mlbench_run_world_size{run_id="$run_id"} - on (run_id) count by (run_id)'
    ' (count by (run_id, rank) (mlbench_worker_running{run_id="$run_id"})) > 0) unless on (run_id)'
    ' mlbench_run_finished_timestamp_seconds{run_id="$run_id"} < time() - $__interval_ms / 1000': (
        "mlbench-run / Throughput / B",
    ),
    # A Grafana is configured in the controller.
    "mlbench_grafana_requests_total": ("mlbench-stack / Error rates / G",),
}
"""Conditions, as PromQL with the dashboard's variables, and the places that need them.

A place is ``UID / PANEL``, with `` / REF`` if the panel has several queries.
"""
