"""Parse a kubelet's cAdvisor metrics: a real text, and made-up lines."""

import pytest

from mlbench_exporter import exported_series as series
from mlbench_exporter.cadvisor import WorkerPods, parse, parse_line
from mlbench_exporter.exported_series import ExportedSample, ExportedSeries, SourceError
from tests.support.kubelet_server import NAMESPACE, RELEASE, TEXT

ZERO = "r1-mlbench-worker-0"
ONE = "r1-mlbench-worker-1"

MACHINE = b"""\
# TYPE machine_cpu_cores gauge
machine_cpu_cores{boot_id="b",machine_id="m",system_uuid="s"} 8
# TYPE machine_memory_bytes gauge
machine_memory_bytes{boot_id="b",machine_id="m",system_uuid="s"} 1.6e+10
"""


def read(text: bytes, release: str = RELEASE) -> list[ExportedSample]:
    return parse(text.splitlines(), WorkerPods(NAMESPACE, release), "node1")


def values(
    samples: list[ExportedSample], of: ExportedSeries
) -> dict[tuple[str, str], tuple[float, float | None]]:
    """Return value and time by pod and container."""
    found = {
        (sample.labels[1], sample.labels[2]): (sample.value, sample.time)
        for sample in samples
        if sample.series is of
    }
    assert len(found) == sum(sample.series is of for sample in samples), "a sample is duplicated"
    return found


def line(of: ExportedSeries, value: str, pod: str = ZERO, **labels: str) -> bytes:
    """Return a line in cAdvisor's format, with the labels of a container by default."""
    every = {
        "container": "worker",
        "id": "/kubepods/pod1/a",
        "image": "i",
        "name": "n",
        "namespace": NAMESPACE,
        "pod": pod,
        **labels,
    }
    pairs = ",".join(f'{name}="{every[name]}"' for name in sorted(every))
    return f"{of.name}{{{pairs}}} {value}\n".encode()


def test_a_real_kubelets_text_is_read_without_double_counting() -> None:
    samples = read(TEXT)

    assert {sample.labels[0] for sample in samples if len(sample.labels) > 1} == {NAMESPACE}
    assert {sample.labels[-1] for sample in samples} == {"node1"}
    # The pod as a whole (4.1 seconds) and its sandbox are left out: they would count the time
    # twice.
    assert values(samples, series.CPU_USAGE) == {
        (ZERO, "worker"): (4.09164079, 1795246978.634),
        (ZERO, "sidecar"): (0.014650213, 1795246968.327),
        (ONE, "worker"): (0.018796063, 1795246975.707),
    }
    assert values(samples, series.CPU_USER)[ZERO, "worker"] == (3.12, 1795246978.634)
    assert values(samples, series.MEMORY_USAGE)[ZERO, "worker"][0] == 2048000
    assert values(samples, series.MEMORY_WORKING_SET)[ZERO, "worker"][0] == 1044480
    assert values(samples, series.THREADS)[ZERO, "worker"][0] == 2
    assert values(samples, series.PROCESSES)[ONE, "worker"][0] == 1
    assert values(samples, series.MEMORY_LIMIT) == {(ZERO, "worker"): (128 << 20, None)}
    # The interfaces of a pod (here eth0, net1 and net2) are added up, and shown for its worker.
    traffic = {(ZERO, "worker"): (4916, 1795246980.05)}
    traffic |= {(ONE, "worker"): (4466 + 656 + 656, 1795246970.196)}
    assert values(samples, series.NETWORK_RECEIVE) == traffic
    assert values(samples, series.NETWORK_TRANSMIT).keys() == traffic.keys()


def used(value: str, **labels: str) -> bytes:
    return line(series.CPU_USAGE, value, **labels)


def received(interface: str) -> bytes:
    return line(series.NETWORK_RECEIVE, "7 2000", interface=interface)


OLD, NEW = used("100 5000", id="/kubepods/pod1/old"), used("0.5 6000", id="/kubepods/pod1/new")


@pytest.mark.parametrize(
    ("lines", "usage"),
    [
        (used("1.5 1000", container="") + used("1.5 1000", container="POD"), None),
        (used("0.25 2000", cpu="cpu00") + used("0.5 2000", cpu="cpu01"), (0.75, 2)),
        (OLD + NEW, (0.5, 6)),
        (NEW + OLD, (0.5, 6)),
        (received("lo") + received("eth0"), (7, 2)),
    ],
    ids=["pod and sandbox", "two cores", "restarted", "restarted, new first", "loopback"],
)
def test_a_container_is_shown_once_with_all_its_cores_and_interfaces(
    lines: bytes, usage: tuple[float, float] | None
) -> None:
    shown = {(ZERO, "worker"): usage} if usage else {}
    samples = read(lines + MACHINE)
    assert values(samples, series.CPU_USAGE) | values(samples, series.NETWORK_RECEIVE) == shown


def test_throttling_and_pressure_of_a_container_are_read() -> None:
    costs = (series.CPU_PERIODS, series.CPU_THROTTLED_PERIODS, series.CPU_THROTTLED)
    of_all = (*costs, *series.PRESSURES, series.FS_READS, series.FS_WRITES)
    samples = read(b"".join(line(of, f"{i}.5 2000") for i, of in enumerate(of_all)) + MACHINE)

    for i, of in enumerate(of_all):
        assert values(samples, of) == {(ZERO, "worker"): (i + 0.5, 2)}


@pytest.mark.parametrize(
    ("namespace", "pod", "shown"),
    [
        ("team", "r1-mlbench-worker-0", True),
        ("team", "r2-mlbench-worker-0", False),
        ("elsewhere", "r1-mlbench-worker-0", False),
        ("team", "r1-mlbench-worker-", False),
        ("team", "r1-mlbench-worker-0-debug", False),
        ("team", "other-r1-mlbench-worker-0", False),
        ("team", "r1-mlbench-worker-r1-mlbench-worker-0", False),
    ],
)
def test_only_the_workers_of_the_release_are_shown(namespace: str, pod: str, shown: bool) -> None:
    text = line(series.THREADS, "3 1000", pod, namespace=namespace) + MACHINE

    assert [s.value for s in read(text) if s.series is series.THREADS] == [3] * shown


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        MACHINE.splitlines(keepends=True)[1],
        TEXT[: TEXT.index(b"# TYPE machine_cpu_cores")],
    ],
)
def test_an_incomplete_text_is_refused(text: bytes) -> None:
    with pytest.raises(SourceError, match="incomplete response"):
        read(text)


@pytest.mark.parametrize(
    "rest",
    [b"", b"}", b'pod="a"}', b'pod="a"} ', b'pod="a"} x', b'pod="a"} 1 x', b'pod="a"} 1 2 3'],
)
def test_a_malformed_line_is_refused(rest: bytes) -> None:
    with pytest.raises(SourceError, match="not in Prometheus's text format"):
        parse_line(rest)


def test_a_label_may_look_like_the_end_of_its_line() -> None:
    labels, figure = parse_line(rb'a="x} 1 2",b="say \"c=\"",id="/d"} 2.5e+06 1500')

    assert (labels["a"], labels["id"]) == ("x} 1 2", "/d")
    assert (figure.value, figure.time) == (2.5e6, 1.5)
