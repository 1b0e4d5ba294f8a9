"""Which samples a pod's usage makes, and that what is unknown makes none."""

from dataclasses import replace

from exporter.usage import Disk, Network, PodUsage

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


def values(usage: PodUsage) -> dict[str, float]:
    return {sample.series.name: sample.value for sample in usage.samples()}


def test_every_figure_is_a_sample() -> None:
    assert values(USAGE) == {
        "container_cpu_usage_seconds_total": 2.25,
        "container_cpu_user_seconds_total": 1.5,
        "container_memory_usage_bytes": 4096,
        "container_memory_working_set_bytes": 1024,
        "container_threads": 7,
        "container_processes": 2,
        "container_fs_reads_bytes_total": 10,
        "container_fs_writes_bytes_total": 20,
        "container_network_receive_bytes_total": 30,
        "container_network_transmit_bytes_total": 40,
    }


def test_samples_are_of_now_and_of_the_pods_container() -> None:
    for sample in USAGE.samples():
        told = dict(zip(sample.series.labels, sample.labels, strict=True))
        assert told == {
            "namespace": "local",
            "pod": "local-mlbench-worker-0",
            "container": "worker",
            "node": "laptop",
        }
        assert sample.time is None


def test_what_is_unknown_is_left_out() -> None:
    known = values(replace(USAGE, disk=None, network=None))

    assert "container_threads" in known
    assert not [name for name in known if "_fs_" in name or "_network_" in name]


def test_zero_is_not_unknown() -> None:
    idle = values(replace(USAGE, network=Network(0, 0), disk=Disk(0, 0)))

    assert idle["container_network_receive_bytes_total"] == 0
    assert idle["container_fs_reads_bytes_total"] == 0
