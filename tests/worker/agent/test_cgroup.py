"""The limits of control groups, from files as Linux has them."""

from pathlib import Path

import pytest

from worker.agent.cgroup import cpu_limit, killed_for_memory, memory_limit

_NO_LIMIT = "9223372036854771712"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def test_a_container_of_the_second_version(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/",
            "sys/fs/cgroup/cpu.max": "150000 100000",
            "sys/fs/cgroup/memory.max": "536870912",
        },
    )
    assert (cpu_limit(tmp_path), memory_limit(tmp_path)) == (1.5, 512 << 20)


def test_the_tightest_of_nested_groups_holds(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/user.slice/run.scope",
            "sys/fs/cgroup/user.slice/cpu.max": "200000 100000",
            "sys/fs/cgroup/user.slice/run.scope/cpu.max": "max 100000",
            "sys/fs/cgroup/user.slice/memory.max": "1000",
            "sys/fs/cgroup/user.slice/run.scope/memory.max": "2000",
        },
    )
    assert (cpu_limit(tmp_path), memory_limit(tmp_path)) == (2.0, 1000)


@pytest.mark.parametrize("group", ["/docker/0a1b", "/"])
def test_the_first_version_in_a_container_and_outside(tmp_path: Path, group: str) -> None:
    """In a container without a namespace of its own, its group is mounted as the root."""
    write(
        tmp_path,
        {
            "proc/self/cgroup": f"5:memory:{group}\n3:cpuacct,cpu:{group}\n1:name=systemd:/",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "1048576",
        },
    )
    assert (cpu_limit(tmp_path), memory_limit(tmp_path)) == (0.5, 1 << 20)


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"proc/self/cgroup": ""},
        {"proc/self/cgroup": "0::/gone"},
        {
            "proc/self/cgroup": "0::/",
            "sys/fs/cgroup/cpu.max": "max 100000",
            "sys/fs/cgroup/memory.max": "max",
        },
        {
            "proc/self/cgroup": "1:cpu:/",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        },
        {"proc/self/cgroup": "1:cpu:/", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"},
    ],
)
def test_no_limit(tmp_path: Path, files: dict[str, str]) -> None:
    write(tmp_path, files)
    assert (cpu_limit(tmp_path), memory_limit(tmp_path)) == (None, None)


def test_the_first_versions_spelling_of_no_limit_is_huge(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "1:memory:/",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": _NO_LIMIT,
        },
    )
    assert memory_limit(tmp_path) == int(_NO_LIMIT)


@pytest.mark.parametrize(
    "files",
    [
        {
            "proc/self/cgroup": "0::/",
            "sys/fs/cgroup/memory.events": "low 0\nhigh 0\nmax 7\noom 5\noom_kill 3",
        },
        {
            "proc/self/cgroup": "4:memory:/kubepods/pod1/c1\n0::/",
            "sys/fs/cgroup/memory/memory.oom_control": "oom_kill_disable 0\noom_kill 3",
        },
        {
            "proc/self/cgroup": "0::/user.slice/run.scope",
            "sys/fs/cgroup/user.slice/memory.events": "oom_kill 9",
            "sys/fs/cgroup/user.slice/run.scope/memory.events": "oom_kill 3",
        },
    ],
)
def test_processes_killed_for_memory(files: dict[str, str], tmp_path: Path) -> None:
    assert killed_for_memory(tmp_path) == 0
    write(tmp_path, files)
    assert killed_for_memory(tmp_path) == 3
