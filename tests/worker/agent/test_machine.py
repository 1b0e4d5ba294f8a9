"""The facts of this machine, and of files and messages as other machines have them."""

import json
import os
import platform
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.nvml import build_nvml
from worker.agent.machine import (
    cpu_limit,
    killed_for_memory,
    memory_limit,
    parse_qdisc,
    read_machine,
)


def test_this_machine() -> None:
    machine = read_machine()
    assert machine.hostname == platform.node()
    assert machine.architecture == platform.machine()
    assert platform.release() in (machine.os or "")
    assert machine.cpus == len(os.sched_getaffinity(0))
    assert machine.memory_bytes == psutil.virtual_memory().total


def test_the_model_of_the_first_core(tmp_path: Path) -> None:
    for text, model in {
        "processor\t: 0\nmodel\t\t: 2\nmodel name\t: AMD EPYC \ncpu MHz\t\t: 2596.1\n": "AMD EPYC",
        "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t\t: 3800MHz\n": (
            "POWER9, altivec supported"
        ),
        "processor\t: 0\nBogoMIPS\t: 243.75\nCPU part\t: 0xd0c\n": None,
        "model name\t:\n": None,
        "model name\t: \udcff\n": "\N{REPLACEMENT CHARACTER}",
    }.items():
        (tmp_path / "proc").mkdir(exist_ok=True)
        (tmp_path / "proc/cpuinfo").write_text(text, errors="surrogateescape")
        assert read_machine(tmp_path).cpu_model == model


def test_a_limit_that_is_not_below_the_memory_is_none(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    total = psutil.virtual_memory().total
    for limit, told in {total: None, total - 1: total - 1}.items():
        (tmp_path / "sys/fs/cgroup/memory.max").write_text(f"{limit}\n")
        assert read_machine(tmp_path).memory_limit_bytes == told


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


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


_REPOSITORY = Path(__file__).parents[3]
_LIMIT = f"sh {_REPOSITORY}/worker/limit-bandwidth.sh"
_TOLD = (
    f"{sys.executable} -c "
    "'from worker.agent.machine import bandwidth_limit; print(bandwidth_limit())'"
)
_NETWORK = """
ip link add uplink type veth peer name other
ip link set uplink up
ip addr add 192.0.2.2/24 dev uplink
ip route add default via 192.0.2.1
"""


def in_namespace(script: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a script of a shell as root of a namespace with no network but what it makes."""
    return subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", script],
        cwd=_REPOSITORY,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **environ},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def _namespace() -> None:
    if not shutil.which("tc") and not Path("/sbin/tc").exists():
        pytest.skip("tc is missing (iproute2)")
    tried = in_namespace(
        f"set -e; {_NETWORK} tc qdisc replace dev uplink root tbf "
        "rate 1mbit burst 16kb latency 50ms"
    )
    if tried.returncode:
        pytest.skip(f"no network namespace with a token bucket here: {tried.stderr.strip()}")


@pytest.mark.usefixtures("_namespace")
@pytest.mark.parametrize(("asked", "told"), [("20", 20.0), ("0.5", 0.5), ("40000", 40000.0)])
def test_what_the_script_limits_is_told(asked: str, told: float) -> None:
    ended = in_namespace(
        f"set -e; {_NETWORK} {_TOLD}; {_LIMIT}; {_TOLD}", MLBENCH_BANDWIDTH_MBIT=asked
    )
    assert ended.returncode == 0, ended.stderr
    before, said, after = ended.stdout.splitlines()
    assert before == "None"
    assert said == f"uplink sends at most {asked} Mbit/s"
    assert float(after) == told


@pytest.mark.usefixtures("_namespace")
def test_the_script_can_run_again_with_another_limit() -> None:
    again = f"export MLBENCH_BANDWIDTH_MBIT; for MLBENCH_BANDWIDTH_MBIT in 10 30; do {_LIMIT}; done"
    ended = in_namespace(f"set -e; {_NETWORK} {again}; {_TOLD}")
    assert ended.stdout.splitlines()[-1] == "30.0", ended.stderr


@pytest.mark.usefixtures("_namespace")
def test_only_the_interface_of_the_default_route_counts() -> None:
    other = "tc qdisc replace dev other root tbf rate 1mbit burst 16kb latency 50ms"
    assert in_namespace(f"set -e; {_NETWORK} {other}; {_TOLD}").stdout == "None\n"


@pytest.mark.usefixtures("_namespace")
@pytest.mark.parametrize(
    ("network", "asked", "complaint"),
    [
        (_NETWORK, "", "$MLBENCH_BANDWIDTH_MBIT must be a number of Mbit/s (not '')"),
        (_NETWORK, "20mbit", "must be a number of Mbit/s (not '20mbit')"),
        (_NETWORK, "1; true", "must be a number"),
        ("", "20", "this pod has no default route"),
    ],
)
def test_the_script_says_what_is_wrong(network: str, asked: str, complaint: str) -> None:
    ended = in_namespace(f"{network} {_LIMIT}", MLBENCH_BANDWIDTH_MBIT=asked)
    assert ended.returncode == 1
    assert ended.stderr.startswith("cannot limit the bandwidth: ")
    assert complaint in ended.stderr


@pytest.mark.usefixtures("_namespace")
def test_the_script_says_that_it_may_not() -> None:
    dropped = f"setpriv --bounding-set -net_admin --inh-caps -net_admin {_LIMIT}"
    ended = in_namespace(f"set -e; {_NETWORK} {dropped}", MLBENCH_BANDWIDTH_MBIT="20")
    assert ended.returncode == 1
    assert "the capability NET_ADMIN is missing" in ended.stderr


def test_a_rate_beyond_32_bits() -> None:
    parameters = struct.pack("=8xI", 0xFFFFFFFF) + bytes(24)
    options = (
        struct.pack("=HH", 4 + len(parameters), 1) + parameters + struct.pack("=HHQ", 12, 4, 10**10)
    )
    message = (
        struct.pack("=BxxxiIII", 0, 7, 0x80010000, 0xFFFFFFFF, 2)
        + struct.pack("=HH4s", 8, 1, b"tbf\0")
        + struct.pack("=HH", 4 + len(options), 0x8002)
        + options
    )
    told = parse_qdisc(message)
    assert (told.interface, told.is_root, told.kind) == (7, True, "tbf")
    assert told.bits_per_second == 8 * 10**10


_READ = """
import json
from dataclasses import asdict
from worker.agent.machine import read_gpus
print(json.dumps(asdict(read_gpus())))
"""
_NONE: dict[str, object] = {"names": [], "driver": None}


def read(**environ: str) -> dict[str, object]:
    """Return what is told to a process of its own, as a library is looked for once."""
    done = subprocess.run(
        [sys.executable, "-c", _READ], env=os.environ | environ, capture_output=True, check=True
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the folder of the library made for the test."""
    folder = tmp_path_factory.mktemp("nvml")
    build_nvml(Path(__file__).with_name("nvml.c"), folder)
    return str(folder)


def test_the_driver_names_them(nvml: str) -> None:
    assert read(LD_LIBRARY_PATH=nvml) == {
        "names": ["NVIDIA Test 0", "NVIDIA Test 1"],
        "driver": "550.1",
    }


def test_one_that_is_lost_is_still_counted(nvml: str) -> None:
    found = read(LD_LIBRARY_PATH=nvml, NVML_LOST="1")
    assert found["names"] == ["NVIDIA Test 0", "a GPU that does not answer"]


def test_a_library_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    # It is found first, as no library of that name lies elsewhere.
    if shutil.which("nvidia-smi"):
        pytest.skip("a real driver is here")
    assert read(LD_LIBRARY_PATH=str(tmp_path)) == _NONE


def test_a_real_driver() -> None:
    smi = shutil.which("nvidia-smi")
    if smi is None:
        pytest.skip("no NVIDIA driver")
    listed = subprocess.run(
        [smi, "--query-gpu=name,driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split(", ") for line in listed.stdout.splitlines()]
    assert read() == {"names": [name for name, _ in rows], "driver": rows[0][1]}
