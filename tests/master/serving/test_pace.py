"""For how long a client is waited for."""

from master.serving.pace import LEAST_BYTES_PER_SECOND, STALL_SECONDS, Pace


def test_a_client_that_moves_nothing_has_ten_seconds() -> None:
    pace = Pace()
    assert pace.patience == STALL_SECONDS == 10
    pace.note(0, waited=9)
    assert pace.patience == 1
    pace.note(0, waited=1)
    assert pace.patience == 0


def test_a_client_that_keeps_the_pace_goes_on_for_ever() -> None:
    pace = Pace()
    for _ in range(10_000):
        pace.note(LEAST_BYTES_PER_SECOND, waited=1)
    assert pace.patience == STALL_SECONDS


def test_a_client_that_moves_a_byte_now_and_then_does_not() -> None:
    pace = Pace()
    seconds = 0
    while pace.patience > 0:
        pace.note(1, waited=1)
        seconds += 1
    assert seconds == 11


def test_much_that_has_moved_excuses_no_long_stall() -> None:
    pace = Pace()
    pace.note(1 << 30)
    assert pace.patience == STALL_SECONDS
