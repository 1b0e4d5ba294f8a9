"""Network traffic of a namespace, parsed from the kernel's table."""

from mlbench.local.proc import Traffic, parse_traffic

_TABLE = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo
    lo:    3193      29    0    0    0     0          0         0     3193      29    0    0    0
  eth0: 160544412    4581    0    0    0     0      0         0   305606    2404    0    0    0
  eth1:1000      20    0    0    0     0          0         0        50       0    0    0    0
"""


def test_traffic_excludes_the_loopback_interface() -> None:
    assert parse_traffic(_TABLE) == Traffic(sent=305656, received=160545412)
