"""The shipper delivers every byte to the master, despite the master's failures."""

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
    """Stores streams by offset like the master, and can be made to fail."""

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
        """Store the new part of a piece."""
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


def test_it_finishes_once_all_is_shipped(
    attempt: Attempt, master: Master, shipper: Shipper
) -> None:
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


def test_it_follows_the_masters_interval_and_ships_the_end_at_once(
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
    assert master.pieces[1:] == [b"second\n", b"done\n"], "logs were shipped before values"


def test_an_unreachable_master_gets_the_data_later(
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


def test_data_that_the_master_lost_is_sent_again(
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
def test_it_finishes_if_the_master_refuses_more_data(
    attempt: Attempt, master: Master, shipper: Shipper, reason: str
) -> None:
    setattr(master, reason, True)
    append(attempt, b"late\n")
    shipper.start()
    end(attempt, shipper)
    assert master.metrics() == b""
