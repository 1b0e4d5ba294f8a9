"""What the run's workers use: CPU, memory, network, disk, GPUs."""

from typing import Final

from grafana.boards.run.queries import (
    of_its_pods,
)
from grafana.graphs import lines
from grafana.queries import (
    CORES,
    graph,
)

_RATE = "[$__rate_interval]"
RESOURCES: Final = (
    lines(
        "CPU cores by worker",
        "Processor cores that each worker uses. Two workers on a machine of two cores have to "
        "share them; a worker below its share waits for something.",
        graph(
            of_its_pods(f"rate(container_cpu_usage_seconds_total{_RATE})"), "rank {{rank}} {{pod}}"
        ),
        unit=CORES,
        width=12,
        table=True,
    ),
    lines(
        "Memory by worker",
        "Memory that each worker holds and that cannot be freed. A curve that climbs all the "
        "time is a leak; at its limit, if it has one, a worker is killed.",
        graph(of_its_pods("container_memory_working_set_bytes"), "rank {{rank}} {{pod}}"),
        unit="bytes",
        width=12,
        table=True,
    ),
    lines(
        "Network by worker",
        "Bytes a second that each worker receives (above) and sends (below).",
        graph(
            of_its_pods(f"rate(container_network_receive_bytes_total{_RATE})"),
            "rank {{rank}} receives",
        ),
        graph(
            "-(" + of_its_pods(f"rate(container_network_transmit_bytes_total{_RATE})") + ")",
            "rank {{rank}} sends",
        ),
        unit="Bps",
        width=12,
        least=None,
        table=True,
        no_value="Not known: the workers share the network of their machine",
    ),
    lines(
        "Disk by worker",
        "Bytes a second that each worker reads from disk (above) and writes to it (below).",
        graph(of_its_pods(f"rate(container_fs_reads_bytes_total{_RATE})"), "rank {{rank}} reads"),
        graph(
            "-(" + of_its_pods(f"rate(container_fs_writes_bytes_total{_RATE})") + ")",
            "rank {{rank}} writes",
        ),
        unit="Bps",
        width=12,
        least=None,
        table=True,
    ),
)

GPU: Final = (
    lines(
        "GPU use by worker",
        "Share of the time in which a GPU computes. Below 80 % the workers wait for data or for "
        "each other.",
        graph(of_its_pods("mlbench_gpu_utilization_ratio"), "rank {{rank}} {{pod}}"),
        unit="percentunit",
        most=1,
        no_value="The run uses no GPU",
    ),
    lines(
        "GPU memory by worker",
        "Memory of its GPUs that each worker holds.",
        graph(of_its_pods("mlbench_gpu_memory_used_bytes"), "rank {{rank}} {{pod}}"),
        unit="bytes",
        no_value="The run uses no GPU",
    ),
    lines(
        "GPU power by worker",
        "Power that each worker's GPUs draw.",
        graph(of_its_pods("mlbench_gpu_power_watts"), "rank {{rank}} {{pod}}"),
        unit="watt",
        no_value="The run uses no GPU",
    ),
)
