"""How far the clocks are apart, by round trips."""

import pytest

from worker.agent.clock import Clock, Offset, offset_by


def test_a_round_trip_tells_the_offset_to_half_of_itself() -> None:
    assert offset_by(100.0, 100.5, 90.0) == Offset(10.25, 0.25)
    assert offset_by(100.0, 100.0, 107.0) == Offset(-7.0, 0.0)


@pytest.mark.parametrize("read_after", [0.0, 0.1, 0.4])
def test_the_true_offset_is_within_the_uncertainty(read_after: float) -> None:
    """Whenever in the round trip the master reads its clock, here 3 s behind."""
    found = offset_by(100.0, 100.4, 100.0 + read_after - 3.0)
    assert abs(found.seconds - 3.0) <= found.uncertainty_seconds + 1e-9


def test_the_shortest_of_the_last_round_trips_counts() -> None:
    clock = Clock()
    assert clock.offset is None
    best = Offset(1.0, 0.001)
    for offset in (Offset(1.5, 0.5), best, Offset(1.2, 0.2)):
        clock.note(offset)
    assert clock.offset == best
    for number in range(8):
        clock.note(Offset(2.0 + number, 0.3))
    assert clock.offset == Offset(2.0, 0.3)
