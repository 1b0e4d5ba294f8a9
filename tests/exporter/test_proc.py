"""What is read from /proc: owners, who inherits one, and network counters."""

from pathlib import Path

import pytest

from exporter.proc import Owner, adopt, named_owner, parse_network
from exporter.usage import Network

HERE = Owner(Path("/here"), "worker-0")
THERE = Owner(Path("/there"), "worker-0")


@pytest.mark.parametrize(
    ("environment", "owner"),
    [
        (b"PATH=/bin\0MLBENCH_POD=worker-0\0MLBENCH_HOME=/here\0", HERE),
        (b"MLBENCH_HOME=/here\0MLBENCH_POD=worker-0\0", HERE),
        (b"MLBENCH_HOME=/here/\0MLBENCH_POD=worker-0", HERE),
        (b"MLBENCH_HOME=/here\0", None),
        (b"MLBENCH_POD=worker-0\0", None),
        (b"MLBENCH_HOME=/here\0MLBENCH_POD=\0", None),
        (b"MLBENCH_HOME=/here\0OLD_MLBENCH_POD=worker-0\0", None),
        (b"MLBENCH_HOME=/here\0NOTE=MLBENCH_POD=worker-0\0", None),
        (b"MLBENCH_HOME=/h\xff\0MLBENCH_POD=p\0", Owner(Path("/h\udcff"), "p")),
        (b"", None),
    ],
)
def test_an_owner_is_named_by_pod_and_home(environment: bytes, owner: Owner | None) -> None:
    assert named_owner(environment) == owner


def test_who_names_no_owner_belongs_to_the_nearest_ancestor_that_does() -> None:
    named = {10: HERE, 12: THERE}
    parents = {11: 10, 13: 12, 14: 13, 15: 1}

    assert adopt(named, parents) == {10: HERE, 11: HERE, 12: THERE, 13: THERE, 14: THERE}


def test_parents_that_were_read_while_they_changed_do_not_hold_up() -> None:
    assert adopt({1: HERE}, {2: 3, 3: 2}) == {1: HERE}


def test_network_is_the_sum_of_all_interfaces_but_the_loopback() -> None:
    table = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo
    lo:    3193      29    0    0    0     0          0         0     3193      29    0    0    0
  eth0: 160544412    4581    0    0    0     0      0         0   305606    2404    0    0    0
  eth1:1000      20    0    0    0     0          0         0        50       0    0    0    0
"""

    assert parse_network(table) == Network(receive_bytes=160545412, transmit_bytes=305656)
