"""The shipper brings every byte to the master, whatever the master does meanwhile."""

import pytest

from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.master_client import (
    MasterClient,
    MasterClientError,
    RequestRefusedError,
    Shipped,
)
from mlbench_worker.agent.shipper import Shipper
from mlbench_worker.agent.training_process import Exit
from tests.conftest import wait_for


class Master(MasterClient):
    """Holds streams by offset as the master does, and can be told to misbehave."""

    def __init__(self) -> None:
        self.held: dict[str, bytearray] = {}
        self.pieces: list[bytes] = []
        self.next_ship_seconds = 0.1
        self.away = False
        self.full = False
        self.closed = False

    def metrics(self) -> bytes:
        return bytes(self.held.get("metrics", b""))

    def ship(self, path: str, offset: int, data: bytes) -> Shipped:
        """Take the new part of a piece."""
        if self.away:
            raise MasterClientError("away")
        if self.closed:
            raise RequestRefusedError("closed")
        held = self.held.setdefault(path.rpartition("/")[2].partition("?")[0], bytearray())
        self.pieces.append(data)
        if offset <= len(held) and not self.full:
            held += data[len(held) - offset :]
        return Shipped(len(held), self.next_ship_seconds)


@pytest.fixture
def master() -> Master:
    return Master()


@pytest.fixture
def shipper(attempt: Attempt, master: Master) -> Shipper:
    return Shipper(attempt, master)


def append(attempt: Attempt, data: bytes) -> None:
    with attempt.file("metrics").open("ab") as file:
        file.write(data)


def end(attempt: Attempt, shipper: Shipper) -> None:
    attempt._note_exit(Exit(0, 0.0))
    shipper.join(10)
    assert not shipper.is_alive()


def test_it_ends_once_all_is_shipped(attempt: Attempt, master: Master, shipper: Shipper) -> None:
    shipper.start()
    big = b"x" * 1_500_000
    attempt.file("stdout").write_bytes(big)
    append(attempt, b"one\ntwo\nto")
    wait_for(lambda: master.metrics() == b"one\ntwo\n", what="whole lines arrive")
    assert shipper.is_alive()
    append(attempt, b"rn")
    end(attempt, shipper)
    assert master.metrics() == b"one\ntwo\ntorn"
    assert master.held["stdout"] == big
    assert max(len(piece) for piece in master.pieces) <= 512 << 10


def test_it_ships_as_often_as_the_master_says_and_at_once_in_the_end(
    attempt: Attempt, master: Master, shipper: Shipper
) -> None:
    master.next_ship_seconds = 30.0
    append(attempt, b"first\n")
    shipper.start()
    wait_for(lambda: master.metrics() == b"first\n", what="the first line arrives")
    append(attempt, b"second\n")
    shipper.join(0.5)
    assert len(master.pieces) == 1
    attempt.file("stdout").write_bytes(b"done\n")
    end(attempt, shipper)
    assert master.pieces[1:] == [b"second\n", b"done\n"], "values go before logs"


def test_a_master_that_is_away_gets_it_later(
    attempt: Attempt, master: Master, shipper: Shipper
) -> None:
    master.away = True
    append(attempt, b"line\n")
    shipper.start()
    shipper.join(0.1)
    assert shipper.is_alive()
    master.away = False
    end(attempt, shipper)
    assert master.metrics() == b"line\n"


def test_a_master_that_has_less_than_was_sent_gets_it_again(
    attempt: Attempt, master: Master, shipper: Shipper
) -> None:
    shipper.start()
    append(attempt, b"first\n")
    wait_for(lambda: master.metrics() == b"first\n", what="the first line arrives")
    master.held["metrics"] = bytearray(b"fi")
    append(attempt, b"second\n")
    end(attempt, shipper)
    assert master.metrics() == b"first\nsecond\n"


@pytest.mark.parametrize("reason", ["closed", "full"])
def test_it_ends_where_the_master_takes_no_more(
    attempt: Attempt, master: Master, shipper: Shipper, reason: str
) -> None:
    setattr(master, reason, True)
    append(attempt, b"late\n")
    shipper.start()
    end(attempt, shipper)
    assert master.metrics() == b""
