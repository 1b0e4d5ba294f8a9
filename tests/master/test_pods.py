"""Which pod an agent is in, told by addresses."""

import pytest

from master.pods import is_same_pod


@pytest.mark.parametrize(
    ("pod_ip", "agent_ip", "same"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("", "10.0.0.1", False),
        (None, "10.0.0.1", True),
        # Workers of one machine say what others reach it at; one without a network cannot.
        ("127.0.0.1", "192.168.0.7", True),
        ("fd00::1", "127.0.0.1", True),
    ],
)
def test_addresses_tell_pods_apart(pod_ip: str | None, agent_ip: str, same: bool) -> None:
    assert is_same_pod(pod_ip, agent_ip) is same
