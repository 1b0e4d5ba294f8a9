"""The files of an attempt share a bound; beyond it, their lists alone are held."""

import pytest

from mlbench_master.database.models import Run
from mlbench_master.errors import BadFieldError
from mlbench_master.recording import files, streams
from mlbench_master.recording.streams import read
from tests.support.rows import get_stream, key

pytestmark = pytest.mark.both_databases
LIST = b'{"folder": "/", "files": [], "more": 0}\n'


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 195)
    monkeypatch.setattr(files, "MAX_LIST_BYTES", len(LIST))


def ship(run: Run, rank: int, pack: bytes, step: int) -> bytes:
    """Send a pack as an agent does, and return what is held of it."""
    at = key(run, rank, "files")
    offset = 0
    while offset < len(pack):
        piece = pack[offset : offset + step]
        # An answer that was lost is asked for again.
        again = [files.append(at, offset, piece, len(pack)) for _ in range(2)]
        assert again[0] == again[1] > offset
        offset = again[0]
    stream = get_stream(at)
    assert stream.size == stream.final_size == len(pack)
    return read(stream, 0, len(pack))


@pytest.mark.parametrize("step", [45, 1000])
def test_a_pack_beyond_the_bound_is_held_by_its_list(run: Run, step: int) -> None:
    first, second, third = (LIST + letter * 80 for letter in (b"a", b"b", b"c"))
    assert ship(run, 0, first, step) == first
    assert ship(run, 1, second, step) == LIST
    assert ship(run, 2, third[:-50], step) == third[:-50]


def test_a_pack_that_has_begun_has_its_room(run: Run) -> None:
    pack = LIST + b"a" * 80
    assert files.append(key(run, 0, "files"), 0, pack[:50], len(pack)) == 50
    assert ship(run, 1, pack, 1000) == LIST
    streams.close(run.id, 1, 0, {"files": len(pack)})
    assert files.append(key(run, 0, "files"), 50, pack[50:] + b"more", len(pack)) == len(pack)


def test_it_begins_with_a_line(run: Run) -> None:
    with pytest.raises(BadFieldError, match="the line that lists them"):
        files.append(key(run, 0, "files"), 0, b"x" * len(LIST) + b"\n", 50)
