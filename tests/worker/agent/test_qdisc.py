"""Token buckets as the kernel tells them, of a network namespace of the test's own."""

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from worker.agent.qdisc import bandwidth_limit, parse_qdisc, read_qdiscs

_REPOSITORY = Path(__file__).parents[3]
_LIMIT = f"sh {_REPOSITORY}/worker/limit-bandwidth.sh"
_TOLD = (
    f"{sys.executable} -c "
    "'from worker.agent.qdisc import bandwidth_limit; print(bandwidth_limit())'"
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


def test_this_machine_has_some_on_its_loopback() -> None:
    assert any(qdisc.is_root for qdisc in read_qdiscs())


def test_no_default_route_no_limit(tmp_path: Path) -> None:
    assert bandwidth_limit(tmp_path) is None


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


@pytest.mark.parametrize("kind", [b"tbf\0", b"htb\0", b""])
def test_a_message_without_options_tells_no_rate(kind: bytes) -> None:
    message = struct.pack("=BxxxiIII", 0, 7, 0, 0xFFFFFFFF, 2) + struct.pack("=HH4s", 8, 1, kind)
    assert parse_qdisc(message).bits_per_second is None


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
