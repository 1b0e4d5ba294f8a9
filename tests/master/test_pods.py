"""Which pod an agent is in, told by uids."""

import pytest

from master.pods import is_same_pod


@pytest.mark.parametrize(
    ("pod_uid", "agent_uid", "same"),
    [
        ("uid-1", "uid-1", True),
        ("uid-1", "uid-2", False),
        ("uid-1", "", False),
        # Workers of one machine, and a rank of an older version.
        ("", "", True),
        (None, "uid-2", True),
    ],
)
def test_uids_tell_pods_apart(pod_uid: str | None, agent_uid: str, same: bool) -> None:
    assert is_same_pod(pod_uid, agent_uid) is same
