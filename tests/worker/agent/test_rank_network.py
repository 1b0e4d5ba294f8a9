"""Real networks of ranks: bandwidth, access to the agent, and cleanup."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from mlbench.contract.assignment import Attachment
from mlbench.contract.shaping import Shaping
from mlbench.local.network import LocalNetwork as Ability
from mlbench.local.network import probe
from mlbench_sources.http_receiver import HttpReceiver, ReceiverResponse
from mlbench_worker.agent.rank_network import NetworkError, attach
from tests.conftest import wait_for
from tests.support.known import known
from tests.support.processes import run_text

pytestmark = pytest.mark.slow

_USERS = ("unshare", "--user", "--map-root-user", "--net")

_RECEIVE = """
import socket, sys
with socket.create_server((sys.argv[1], 9000)) as server:
    print(flush=True)
    peer, _ = server.accept()
    while peer.recv(1 << 16):
        pass
"""
# Timed at the sender. A delay of the receiver can only make the network seem slower.
_SEND = """
import socket, sys, time
with socket.create_connection((sys.argv[1], 9000)) as peer:
    began, size = time.monotonic(), int(sys.argv[2])
    peer.sendall(bytes(size))
    peer.shutdown(socket.SHUT_WR)
    peer.recv(1)
    print(size * 8e-6 / (time.monotonic() - began))
"""
_ASK = """
import http.client, os, sys
there, token = sys.argv[1:]
connection = http.client.HTTPConnection(there.removeprefix("http://"))
connection.request("GET", "/told", headers={"Authorization": f"Bearer {token}"})
print(os.geteuid(), connection.getresponse().read().decode())
"""
_AGENT = """
import sys, time
from pathlib import Path
from mlbench.contract.assignment import Attachment
from mlbench.contract.shaping import Shaping
from mlbench_worker.agent.rank_network import attach
from mlbench_worker.agent.training_process import TrainingProcess

network = attach(Attachment("198.18.9.1", 15, Shaping(20)), Path(sys.argv[1]))
out = Path("/dev/null")
command = network.inside(["sleep", "100"])
TrainingProcess(command, environ={}, working_dir=None, stdout=out, stderr=out, cpus=(),
                on_exit=print)
print(flush=True)
time.sleep(100)
"""


@pytest.fixture(scope="module")
def ability() -> Ability:
    found = probe()
    if found.no_bandwidth:
        pytest.skip(found.no_bandwidth)
    return found


@pytest.fixture(params=["as this user may", "in a user namespace"])
def switch(request: pytest.FixtureRequest, ability: Ability, tmp_path: Path) -> Iterator[Path]:
    """The file of a switch, made with this user's rights and in a user namespace."""
    if request.param == "in a user namespace":
        ability = replace(ability, unshare=_USERS)
    file = tmp_path / "switch"
    with subprocess.Popen(ability.switch(file), stderr=subprocess.DEVNULL) as process:
        wait_for(file.exists, what="the switch is there")
        yield file
        process.kill()


def ports(switch: Path) -> int:
    """Return the number of ports in use on a switch."""
    command = ["nsenter", "--target", switch.read_text().strip(), "--net", "--user", "ip", "-o"]
    if os.geteuid() == 0:
        command.remove("--user")
    told = run_text([*command, "link"], check=True)
    return told.stdout.count("master mlbench")


def run(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


# Two packets pass without delay, which is 12 % of a short message. The short message takes 10 ms,
# and a busy machine may pause several times in that time.
@pytest.mark.parametrize(("size", "least", "most"), [(2_500_000, 15, 20), (24_648, 2, 23)])
def test_a_rank_sends_at_its_bandwidth_limit(
    switch: Path, size: int, least: float, most: float
) -> None:
    addresses = ("198.18.1.1", "198.18.1.2")
    shaping = Shaping(max_bandwidth=20.0)
    networks = [attach(Attachment(address, 15, shaping), switch) for address in addresses]
    assert [network.shaping for network in networks] == [shaping] * 2
    first, second = networks
    with (
        closing(first),
        closing(second),
        run(first.inside([sys.executable, "-c", _RECEIVE, addresses[0]])) as receiving,
    ):
        assert known(receiving.stdout).readline() == "\n"
        send = second.inside([sys.executable, "-c", _SEND, addresses[0], str(size)])
        done = run_text(send, check=True)
        assert least < float(done.stdout) < most
        # Traffic includes the headers of packets of up to 1,500 bytes, and of the handshake.
        sent = second.traffic().sent
        assert 1.04 * size < sent < 1.08 * size + 1000
        # The counters are not read at the same time, so the last packets may be on their way.
        assert sent - 2000 < first.traffic().received < sent + 2000
        assert ports(switch) == 2
    wait_for(lambda: ports(switch) == 0, what="nothing is left")


def test_a_process_in_the_network_can_reach_the_agent(switch: Path) -> None:
    network = attach(Attachment("198.18.1.1", 15, Shaping(max_bandwidth=20.0)), switch)
    routes = [lambda _: ReceiverResponse({})]
    with (
        closing(network),
        closing(HttpReceiver(routes, lambda _: None, lambda _: None, network.sockets)) as server,
    ):
        ask = network.inside([sys.executable, "-c", _ASK, server.url, server.token])
        done = run_text(ask, check=True)
    assert done.stdout == f"{os.geteuid()} {{}}\n"


def test_a_killed_agent_leaves_no_network(switch: Path) -> None:
    with run([sys.executable, "-c", _AGENT, str(switch)]) as agent:
        assert known(agent.stdout).readline() == "\n"
        assert ports(switch) == 1
        agent.send_signal(signal.SIGKILL)
    wait_for(lambda: ports(switch) == 0, what="nothing is left")


def test_an_impossible_network_is_an_error(switch: Path, tmp_path: Path) -> None:
    impossible = Attachment("198.18.1.1", 99, Shaping(max_bandwidth=20.0))
    with pytest.raises(NetworkError, match="cannot create a private network: ip address add"):
        attach(impossible, switch)
    with pytest.raises(NetworkError, match="the switch of local networks is not there"):
        attach(impossible, tmp_path / "nothing")
