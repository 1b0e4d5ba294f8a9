"""Traffic shaping: limits take effect, and unsupported ones are reported."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mlbench.contract.shaping import Shaping, commands, explain
from tests.support.processes import run_text

_REPOSITORY = Path(__file__).parents[3]
_SHAPE = f"{sys.executable} -P -m mlbench.contract.shaping"
_TOLD = (
    f"{sys.executable} -c 'from mlbench.contract.shaping import default_interface;"
    "from mlbench_worker.agent.machine import read_shaping;"
    "print(read_shaping(default_interface()))'"
)
_NETWORK = """
ip link add uplink type veth peer name other
ip link set uplink up
ip addr add 192.0.2.2/24 dev uplink
ip route add default via 192.0.2.1
"""
_OTHER = "tc qdisc replace dev other root tbf rate 1mbit burst 16kb latency 50ms"


def in_namespace(script: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script as root in a namespace that has only the network it creates."""
    return run_text(
        ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", script],
        cwd=_REPOSITORY,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **environ},
    )


@pytest.fixture(scope="module")
def _namespace() -> None:
    if not shutil.which("tc") and not Path("/sbin/tc").exists():
        pytest.skip("tc is missing (iproute2)")
    tried = in_namespace(f"set -e; {_NETWORK} {_OTHER}")
    if tried.returncode:
        pytest.skip(f"no network namespace with a token bucket here: {tried.stderr.strip()}")


@pytest.mark.usefixtures("_namespace")
@pytest.mark.parametrize(("asked", "rate"), [("0.5", 0.5), ("40000", 40000.0)])
def test_the_last_limit_is_reported(asked: str, rate: float) -> None:
    """The larger rate needs more than 32 bits. Limits of other interfaces are ignored."""
    ended = in_namespace(
        f"set -e; {_NETWORK} {_OTHER}; {_TOLD}; export MLBENCH_BANDWIDTH_MBIT;"
        f"for MLBENCH_BANDWIDTH_MBIT in 10 {asked}; do {_SHAPE}; done; {_TOLD}"
    )
    assert ended.returncode == 0, ended.stderr
    before, _, message, after = ended.stdout.splitlines()
    assert before == str(Shaping())
    assert message == f"uplink: {Shaping(rate)}"
    assert after == str(Shaping(rate))


@pytest.mark.usefixtures("_namespace")
def test_latency_and_loss_are_reported_or_the_missing_module_is_named() -> None:
    """The result depends on the modules of this kernel."""
    ordered = Shaping(20.0, 5.0, 1.0)
    ended = in_namespace(f"set -e; {_NETWORK} {_SHAPE}; {_TOLD}", **ordered.variables)
    if ended.returncode:
        assert "the kernel lacks the module sch_netem: modprobe sch_netem" in ended.stderr
    else:
        assert ended.stdout.splitlines()[-1] == str(ordered)


_MAY_NOT = "setpriv --bounding-set -net_admin --inh-caps -net_admin"


@pytest.mark.usefixtures("_namespace")
@pytest.mark.parametrize(
    ("script", "asked", "complaint"),
    [
        (_NETWORK, "1; true", "$MLBENCH_BANDWIDTH_MBIT must be a number (not '1; true')"),
        ("", "20", "this pod has no default route"),
        (f"{_NETWORK} {_MAY_NOT}", "20", "the capability NET_ADMIN is missing"),
    ],
)
def test_errors_are_reported(script: str, asked: str, complaint: str) -> None:
    ended = in_namespace(f"{script} {_SHAPE}", MLBENCH_BANDWIDTH_MBIT=asked)
    assert ended.returncode == 1
    assert ended.stderr.startswith("cannot shape what is sent: ")
    assert complaint in ended.stderr


_BUCKET = "tbf rate 20mbit burst 3028 latency 50ms"
_REPLACE = "tc qdisc replace dev eth0"


@pytest.mark.parametrize(
    ("shaping", "lines"),
    [
        (Shaping(), []),
        (Shaping(20), [f"{_REPLACE} root handle 1: {_BUCKET}"]),
        (Shaping(latency_ms=0.5), [f"{_REPLACE} root handle 2: netem limit 100000 delay 0.5ms"]),
        (
            Shaping(20, 5, 0.1),
            [
                "ip link set dev eth0 gso_max_segs 1",
                f"{_REPLACE} root handle 2: netem limit 100000 delay 5ms loss 0.1%",
                f"{_REPLACE} parent 2:1 handle 3: {_BUCKET}",
            ],
        ),
    ],
)
def test_netem_precedes_the_token_bucket(shaping: Shaping, lines: list[str]) -> None:
    found = commands(shaping, "eth0")
    assert [" ".join(words) for words in found] == lines
    assert Shaping.from_environ(shaping.variables) == shaping


def test_a_missing_kernel_module_is_named() -> None:
    """The first message is from a current tc, the second one from an older version."""
    for said in ("Error: Specified qdisc kind is unknown.", "RTNETLINK answers: No such file\n"):
        told = explain(commands(Shaping(latency_ms=1), "eth0")[0], said)
        assert told.startswith("the kernel lacks the module sch_netem: modprobe sch_netem (")
