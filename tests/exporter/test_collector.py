"""How usage becomes series: names, labels, types, what is left out, and what a failure tells."""

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from exporter.collector import UsageCollector
from exporter.usage import Disk, Network, PodUsage, Source

USAGE = PodUsage(
    namespace="local",
    pod="local-mlbench-worker-0",
    container="worker",
    node="laptop",
    cpu_user_seconds=1.5,
    cpu_usage_seconds=2.25,
    memory_usage_bytes=4096,
    memory_working_set_bytes=1024,
    threads=7,
    processes=2,
    disk=Disk(read_bytes=10, write_bytes=20),
    network=Network(receive_bytes=30, transmit_bytes=40),
)
OTHER = replace(USAGE, pod="local-mlbench-worker-1", threads=3)

LABELS = {
    "namespace": "local",
    "pod": "local-mlbench-worker-0",
    "container": "worker",
    "node": "laptop",
}


class Works:
    """A source that knows what it was given."""

    def __init__(self, name: str, *usages: PodUsage) -> None:
        self.name = name
        self._usages = usages

    def read(self) -> Sequence[PodUsage]:
        """Return what it was given."""
        return self._usages


class Fails:
    """A source that is broken."""

    name = "broken"

    def read(self) -> Sequence[PodUsage]:
        """Raise."""
        raise OSError("no such thing")


def registry(*sources: Source) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(UsageCollector(sources))
    return registry


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("container_cpu_usage_seconds_total", 2.25),
        ("container_cpu_user_seconds_total", 1.5),
        ("container_memory_usage_bytes", 4096),
        ("container_memory_working_set_bytes", 1024),
        ("container_threads", 7),
        ("container_processes", 2),
        ("container_fs_reads_bytes_total", 10),
        ("container_fs_writes_bytes_total", 20),
        ("container_network_receive_bytes_total", 30),
        ("container_network_transmit_bytes_total", 40),
    ],
)
def test_series_are_named_and_labelled_as_cadvisor_does(name: str, value: float) -> None:
    assert registry(Works("processes", USAGE)).get_sample_value(name, LABELS) == value


def test_totals_are_counters_and_states_are_gauges() -> None:
    for family in registry(Works("processes", USAGE)).collect():
        for sample in family.samples:
            expected = "counter" if sample.name.endswith("_total") else "gauge"
            assert family.type == expected, sample.name


def test_pods_of_several_sources_share_one_family() -> None:
    families = list(registry(Works("one", USAGE), Works("two", OTHER)).collect())

    assert len({family.name for family in families}) == len(families)
    threads = next(family for family in families if family.name == "container_threads")
    assert {sample.labels["pod"]: sample.value for sample in threads.samples} == {
        "local-mlbench-worker-0": 7,
        "local-mlbench-worker-1": 3,
    }


def test_what_is_unknown_is_left_out() -> None:
    unknown = replace(USAGE, disk=None, network=None)

    text = generate_latest(registry(Works("processes", unknown))).decode()

    assert "container_threads" in text
    assert "_fs_" not in text
    assert "_network_" not in text


def test_zero_is_not_unknown() -> None:
    idle = replace(USAGE, network=Network(0, 0), disk=Disk(0, 0))

    read = registry(Works("processes", idle)).get_sample_value

    assert read("container_network_receive_bytes_total", LABELS) == 0
    assert read("container_fs_reads_bytes_total", LABELS) == 0


def test_a_source_that_fails_says_so_and_leaves_the_others_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    read = registry(Fails(), Works("processes", USAGE)).get_sample_value

    assert read("mlbench_exporter_source_up", {"source": "broken"}) == 0
    assert read("mlbench_exporter_source_up", {"source": "processes"}) == 1
    assert read("container_threads", LABELS) == 7
    assert "no such thing" in caplog.text


def test_a_source_without_pods_is_up() -> None:
    read = registry(Works("processes")).get_sample_value

    assert read("mlbench_exporter_source_up", {"source": "processes"}) == 1
    duration = read("mlbench_exporter_source_duration_seconds", {"source": "processes"})
    assert duration is not None
    assert 0 <= duration < 1


def test_promtool_finds_nothing_to_say(promtool: Path) -> None:
    text = generate_latest(registry(Works("processes", USAGE, OTHER), Fails()))

    checked = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, check=False
    )

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
