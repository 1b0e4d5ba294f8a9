"""Limits of worker pods: reported in the manifest, and effective by measurement."""

from bisect import bisect
from datetime import datetime
from itertools import pairwise

from mlbench.contract.records import Run
from tests.e2e.commands import wait_until
from tests.e2e.release import CORES, ENDLESS, Release
from tests.support.known import known

_MBIT = 20.0
_BYTES_PER_SECOND = _MBIT * 1e6 / 8
_MAX_MESSAGE_BYTES = 4 << 20
_BANDWIDTH = "all_reduce_float32_bus_bandwidth_bytes_per_second @ 0"


def test_the_cpu_limit_is_effective(release: Release) -> None:
    args = {"epochs": "25", **ENDLESS}
    ordered = release.client.create_run(
        "cores", 2, num_cpus=CORES, benchmark="digits", args=args, queue=True
    )
    ended = release.finish(ordered.result().value)

    assert _facts(release, ended, "cpu_limit") == {CORES}
    for worker in release.kept_workers:
        throttled = _throttled_periods(release, worker)
        print(f"{worker} was throttled in {throttled} periods of 0.1 s")
        assert throttled > 0
    readings = wait_until(
        lambda: _readings(release, ended),
        lambda rows: [row[-1][0] > _seconds(ended.finished_at) for row in rows] == [True, True],
        90,
        "Prometheus has the workers' CPU time",
    )
    for row in readings:
        max_cores = max(
            (used - before) / (at - was_at) for (was_at, before), (at, used) in pairwise(row)
        )
        used = row[-1][1] - row[0][1]
        print(f"{used:.1f} s of CPU time, {max_cores:.2f} cores at most; limit {CORES:g}")
        assert used > 1, "the workers must use CPU time"
        assert max_cores < CORES * 1.15


def _throttled_periods(release: Release, pod: str) -> int:
    """Return the number of 100 ms periods in which the kernel throttled a worker."""
    read = "cat /sys/fs/cgroup/cpu.stat /sys/fs/cgroup/cpu/cpu.stat 2>/dev/null || true"
    text = release.kubectl("exec", pod, "--container", "worker", "--", "sh", "-c", read)
    counts = dict(line.split() for line in text.splitlines())
    return int(counts["nr_throttled"])


def _readings(release: Release, run: Run) -> list[list[tuple[float, float]]]:
    """Return timestamps and CPU seconds of each worker during a run.

    The kubelet updates them about every ten seconds. The first entry is the last one before the
    run.
    """
    began = _seconds(run.started_at)
    query = 'container_cpu_usage_seconds_total{container="worker"}[10m]'
    series = (worker["values"] for worker in release.query(query))
    read = ([(at, float(value)) for at, value in values] for values in series)
    first = ((values, max(0, bisect(values, (began,)) - 1)) for values in read)
    return [values[index:] for values, index in first if index < len(values) - 1]


def test_the_bandwidth_limit_is_effective(release: Release) -> None:
    unlimited = _communicate(release, "unlimited", None)
    limited = _communicate(release, "limited", _MBIT)
    assert _facts(release, unlimited, "bandwidth_limit") == {None}
    assert _facts(release, limited, "bandwidth_limit") == {_MBIT}

    fast, slow = _bandwidths(release, unlimited), _bandwidths(release, limited)
    print(f"bus bandwidth: {max(fast) * 8e-6:.1f} Mbit/s unlimited, with {_MBIT:g}:")
    print(*(f"{rate * 8e-6:.2f}" for rate in slow))
    assert len(slow) == len(fast) == 8, "one bandwidth per message size"
    # Two packets pass in a burst, which are a tenth of the shortest message.
    assert max(slow) < _BYTES_PER_SECOND * 1.15
    assert _BYTES_PER_SECOND * 0.6 < slow[-1] < _BYTES_PER_SECOND * 1.05
    assert fast[-1] > 3 * _BYTES_PER_SECOND

    for rank in release.client.get_result(limited.id).result().value.ranks:
        assert rank.network_sent_bytes is not None
        print(f"rank {rank.rank}: {rank.network_sent_bytes:,.0f} bytes sent by its pod")
        assert rank.network_sent_bytes > 2 * _MAX_MESSAGE_BYTES


def _communicate(release: Release, name: str, max_bandwidth: float | None) -> Run:
    """Measure all-reduce with messages that take up to 1.7 s at the limit."""
    sizes = {"min_bytes": str(32 << 10), "max_bytes": str(_MAX_MESSAGE_BYTES)}
    args = {"operations": "all_reduce", **sizes, "warmup": "1"}
    ordered = release.client.create_run(
        name, 2, None, max_bandwidth, benchmark="communication", args=args, queue=True
    )
    return release.finish(ordered.result().value)


def _bandwidths(release: Release, run: Run) -> list[float]:
    """Return the measured bus bandwidth for each message size, in bytes per second."""
    series = release.client.get_run_metrics(run.id, metric_filter=_BANDWIDTH).result().value
    return [point.number for point in next(iter(series.values()))]


def _facts(release: Release, run: Run, name: str) -> set[object]:
    """Return the values of a field in the machines of a run's manifest."""
    manifest = release.client.get_manifest(run.id).result().value
    assert sum(len(machine.ranks) for machine in manifest.machines) == 2
    return {getattr(machine, name) for machine in manifest.machines}


def _seconds(text: str | None) -> float:
    return datetime.fromisoformat(known(text)).timestamp()
