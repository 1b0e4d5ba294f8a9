"""The shipper brings every byte to the master, whatever the master does meanwhile."""

from pathlib import Path

import pytest

from tests.conftest import wait_for
from tests.worker.agent.test_attempt import ASSIGNMENT
from worker.agent.attempt import Attempt
from worker.agent.link import Link, LinkError, RefusedError
from worker.agent.process import Exit
from worker.agent.shipper import Shipper


class Master(Link):
    """Holds streams by offset as the master does, and can be told to misbehave."""

    def __init__(self) -> None:
        self.held: dict[str, bytearray] = {}
        self.pieces: list[bytes] = []
        self.away = False
        self.full = False
        self.closed = False

    def ship(self, path: str, offset: int, data: bytes) -> int:
        """Take the new part of a piece."""
        if self.away:
            raise LinkError("away")
        if self.closed:
            raise RefusedError("closed")
        held = self.held.setdefault(path.rpartition("/")[2].partition("?")[0], bytearray())
        self.pieces.append(data)
        if offset <= len(held) and not self.full:
            held += data[len(held) - offset :]
        return len(held)


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    return Attempt.create(tmp_path, ASSIGNMENT)


def append(attempt: Attempt, data: bytes) -> None:
    with attempt.file("metrics").open("ab") as file:
        file.write(data)


def test_it_ends_once_all_is_shipped(attempt: Attempt) -> None:
    master = Master()
    shipper = Shipper(attempt, master)
    shipper.start()
    big = b"x" * 1_500_000
    attempt.file("stdout").write_bytes(big)
    append(attempt, b"one\ntwo\nto")
    wait_for(
        lambda: bytes(master.held.get("metrics", b"")) == b"one\ntwo\n", what="whole lines arrive"
    )
    assert shipper.is_alive()
    append(attempt, b"rn")
    attempt._note_exit(Exit(0, 0.0))
    shipper.join(10)
    assert not shipper.is_alive()
    assert master.held["metrics"] == b"one\ntwo\ntorn"
    assert master.held["stdout"] == big
    assert max(len(piece) for piece in master.pieces) <= 512 << 10


def test_a_master_that_is_away_gets_it_later(attempt: Attempt) -> None:
    master = Master()
    master.away = True
    shipper = Shipper(attempt, master)
    shipper.start()
    append(attempt, b"line\n")
    attempt._note_exit(Exit(0, 0.0))
    assert shipper.is_alive()
    master.away = False
    shipper.join(10)
    assert not shipper.is_alive()
    assert master.held["metrics"] == b"line\n"


def test_a_master_that_has_less_than_was_sent_gets_it_again(attempt: Attempt) -> None:
    master = Master()
    shipper = Shipper(attempt, master)
    shipper.start()
    append(attempt, b"first\n")
    wait_for(
        lambda: bytes(master.held.get("metrics", b"")) == b"first\n", what="the first line arrives"
    )
    master.held["metrics"] = bytearray(b"fi")
    append(attempt, b"second\n")
    attempt._note_exit(Exit(0, 0.0))
    shipper.join(10)
    assert master.held["metrics"] == b"first\nsecond\n"


def test_it_gives_up_where_the_master_wants_no_more(attempt: Attempt) -> None:
    master = Master()
    master.closed = True
    append(attempt, b"line\n")
    shipper = Shipper(attempt, master)
    shipper.start()
    shipper.join(10)
    assert not shipper.is_alive()


def test_it_ends_where_a_closed_stream_takes_no_more(attempt: Attempt) -> None:
    master = Master()
    master.full = True
    append(attempt, b"late\n")
    attempt._note_exit(Exit(0, 0.0))
    shipper = Shipper(attempt, master)
    shipper.start()
    shipper.join(10)
    assert not shipper.is_alive()
    assert len(master.pieces) == 1
