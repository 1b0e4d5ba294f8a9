"""Pauses double up to a limit, and are reset after a success."""

from mlbench.local.backoff import Backoff


def test_backoff_doubles_with_jitter_up_to_a_limit() -> None:
    backoff = Backoff(first=1.0, longest=8.0)
    for longest in (1, 2, 4, 8, 8, 8):
        assert longest / 2 <= backoff.seconds() <= longest
    backoff.reset()
    assert backoff.seconds() <= 1
