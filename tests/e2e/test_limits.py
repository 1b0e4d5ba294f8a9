"""Limits in force in the pods: what they are can be seen, and what they do can be measured."""

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


def test_a_worker_gets_its_cores_and_no_more(release: Release) -> None:
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
        most = max(
            (used - before) / (at - was_at) for (was_at, before), (at, used) in pairwise(row)
        )
        used = row[-1][1] - row[0][1]
        print(f"{used:.1f} s of CPU time, {most:.2f} cores at most; limit {CORES:g}")
        assert used > 1, "it did train"
        assert most < CORES * 1.15


def _throttled_periods(release: Release, pod: str) -> int:
    """Return in how many periods of 0.1 s the kernel held a worker back."""
    read = "cat /sys/fs/cgroup/cpu.stat /sys/fs/cgroup/cpu/cpu.stat 2>/dev/null || true"
    told = release.kubectl("exec", pod, "--container", "worker", "--", "sh", "-c", read)
    counts = dict(line.split() for line in told.splitlines())
    return int(counts["nr_throttled"])


def _readings(release: Release, run: Run) -> list[list[tuple[float, float]]]:
    """Return when each worker's CPU time was read in a run, and what it was, in seconds.

    The kubelet reads it every ten seconds or so: the last reading before the run comes first.
    """
    began = _seconds(run.started_at)
    query = 'container_cpu_usage_seconds_total{container="worker"}[10m]'
    series = (worker["values"] for worker in release.query(query))
    read = ([(at, float(value)) for at, value in values] for values in series)
    first = ((values, max(0, bisect(values, (began,)) - 1)) for values in read)
    return [values[index:] for values, index in first if index < len(values) - 1]


def test_a_worker_sends_as_fast_as_it_may(release: Release) -> None:
    unlimited = _communicate(release, "unlimited", None)
    limited = _communicate(release, "limited", _MBIT)
    assert _facts(release, unlimited, "bandwidth_limit") == {None}
    assert _facts(release, limited, "bandwidth_limit") == {_MBIT}

    fast, slow = _bandwidths(release, unlimited), _bandwidths(release, limited)
    print(f"bus bandwidth: {max(fast) * 8e-6:.1f} Mbit/s unlimited, with {_MBIT:g}:")
    print(*(f"{rate * 8e-6:.2f}" for rate in slow))
    assert len(slow) == len(fast) == 8, "one for each size"
    # Two packets pass at once, which are a tenth of the shortest message.
    assert max(slow) < _BYTES_PER_SECOND * 1.15
    assert _BYTES_PER_SECOND * 0.6 < slow[-1] < _BYTES_PER_SECOND * 1.05
    assert fast[-1] > 3 * _BYTES_PER_SECOND

    for rank in release.client.get_result(limited.id).result().value.ranks:
        assert rank.network_sent_bytes is not None
        print(f"rank {rank.rank}: {rank.network_sent_bytes:,.0f} bytes sent by its pod")
        assert rank.network_sent_bytes > 2 * _MAX_MESSAGE_BYTES


def _communicate(release: Release, name: str, max_bandwidth: float | None) -> Run:
    """Measure all-reduce on messages that take up to 1.7 s where the limit is in force."""
    sizes = {"min_bytes": str(32 << 10), "max_bytes": str(_MAX_MESSAGE_BYTES)}
    args = {"operations": "all_reduce", **sizes, "warmup": "1"}
    ordered = release.client.create_run(
        name, 2, None, max_bandwidth, benchmark="communication", args=args, queue=True
    )
    return release.finish(ordered.result().value)


def _bandwidths(release: Release, run: Run) -> list[float]:
    """Return the bus bandwidth that a run measured for each size, in bytes per second."""
    series = release.client.get_run_metrics(run.id, metric_filter=_BANDWIDTH).result().value
    return [point.number for point in next(iter(series.values()))]


def _facts(release: Release, run: Run, name: str) -> set[object]:
    """Return what the workers of a run said of their machines."""
    manifest = release.client.get_manifest(run.id).result().value
    assert sum(len(machine.ranks) for machine in manifest.machines) == 2
    return {getattr(machine, name) for machine in manifest.machines}


def _seconds(text: str | None) -> float:
    return datetime.fromisoformat(known(text)).timestamp()
