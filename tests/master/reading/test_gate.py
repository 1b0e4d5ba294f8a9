"""The gate before Prometheus."""

import threading
from contextlib import ExitStack

import pytest

from master.reading.promql import CircuitBreaker, NoAnswerError, PrometheusError


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gate(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker(open_seconds=5.0, clock=clock)


def fail(gate: CircuitBreaker) -> None:
    with pytest.raises(NoAnswerError), gate.query():
        raise NoAnswerError("no answer")


def passes(gate: CircuitBreaker) -> bool:
    try:
        with gate.query():
            return True
    except PrometheusError:
        return False


def test_after_three_failures_in_a_row_nobody_asks_for_a_while(
    gate: CircuitBreaker, clock: Clock
) -> None:
    fail(gate)
    fail(gate)
    assert passes(gate)
    for _ in range(3):
        fail(gate)
    with pytest.raises(PrometheusError, match="asked again in 5 s"), gate.query():
        pass
    clock.now = 4.9
    assert not passes(gate)
    clock.now = 5.0
    assert passes(gate)
    assert passes(gate)


def test_one_finds_out_whether_it_answers_again(gate: CircuitBreaker, clock: Clock) -> None:
    for _ in range(3):
        fail(gate)
    clock.now = 5.0
    with gate.query():
        assert not passes(gate), "another waits for the first"
    assert passes(gate)


def test_one_that_found_no_answer_has_the_others_wait_again(
    gate: CircuitBreaker, clock: Clock
) -> None:
    for _ in range(3):
        fail(gate)
    clock.now = 5.0
    fail(gate)
    clock.now = 9.9
    assert not passes(gate)
    clock.now = 10.0
    assert passes(gate)


def test_what_is_refused_is_an_answer(gate: CircuitBreaker) -> None:
    for _ in range(5):
        with pytest.raises(PrometheusError), gate.query():
            raise PrometheusError("parse error")
    assert passes(gate)


def test_so_many_ask_at_once_and_no_more(gate: CircuitBreaker) -> None:
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(gate.query())
        with pytest.raises(PrometheusError, match="8 queries"), gate.query():
            pass
    waiting = threading.Thread(target=lambda: passes(gate))
    waiting.start()
    waiting.join()
    assert passes(gate)
