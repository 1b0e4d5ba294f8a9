"""Which addresses and ports are other machines', as code in a network of its own may reach them."""

import pytest

from mlbench_worker.agent.rank_network import address_towards
from mlbench_worker.agent.receivers.egress import _is_elsewhere, connect, ports_of


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.1.2.3", "::1", "0.0.0.0", "::", "169.254.169.254", "fe80::1%lo",
     "::ffff:127.0.0.1", "::ffff:169.254.169.254", "224.0.0.1", address_towards()],
)  # fmt: skip
def test_this_machine_and_its_link_are_not_elsewhere(address: str) -> None:
    assert not _is_elsewhere(address)
    with pytest.raises(OSError, match="not another machine's"):
        connect(address, 443, 1)


@pytest.mark.parametrize("address", ["192.0.2.1", "10.255.255.254", "2001:db8::1"])
def test_other_machines_are(address: str) -> None:
    assert _is_elsewhere(address)


def test_the_ports_are_443_or_those_that_are_listed() -> None:
    assert ports_of("1") == {443}
    assert ports_of("443,8443") == {443, 8443}
    for wrong in ("", "yes", "0", "443,", "65536", "-1", "9" * 5000):
        with pytest.raises(ValueError, match="must be 1, or ports such as 443,8443"):
            ports_of(wrong)
