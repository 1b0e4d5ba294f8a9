"""Logs, in pieces downwards and upwards, by their last lines, and searched."""

import random

import pytest

from mlbench.contract.records import LogMatch, LogPage, LogSearch
from mlbench_master.database.models import Chunk, Run
from mlbench_master.reading import logs
from mlbench_master.reading.logs import LogGoneError, before, page, search, tail, whole
from mlbench_master.recording import streams
from tests.support.rows import key

# Lines with ends of both kinds, without any, characters of every length, and bytes that are none,
# which `surrogateescape` writes.
_PIECES = [
    *("a", "word ", "ü", "€", "𝄞", "\n", "\r\n", "\r", "\n\n"),
    *("\udcff", "\udc80" * 5, "\udce2\udc82", "\udcf0\udc9d", "\udcc3\n"),
]


def write(run: Run, data: bytes, offset: int = 0) -> None:
    streams.append(key(run, 0, "stdout"), offset, data)


def find(run: Run) -> logs.Log:
    return logs.find(run, 0, "stdout")


def chunk(text: str, start: int, offset: int, size: int, complete: bool = False) -> LogPage:
    return LogPage(0, "stdout", 1, text, start, offset, size, complete)


def read_all(run: Run) -> tuple[str, int]:
    """Return the text that a follower of the log sees, and in how many pages."""
    text, offset, pages = "", 0, 0
    while True:
        found = page(find(run), offset)
        assert found.start == offset
        text, pages = text + found.text, pages + 1
        if found.complete or found.offset == offset:
            return text, pages
        offset = found.offset


def read_upwards(log: logs.Log, end: int) -> str:
    """Return the text up to an offset, read piece by piece towards the beginning."""
    text = ""
    while end:
        found = before(log, end)
        assert found.offset == end
        assert found.start < end
        text, end = found.text + text, found.start
    return text


def test_nothing_written_yet(run: Run) -> None:
    for found in (page(find(run), 0), tail(find(run), 5), before(find(run), 9)):
        assert found == chunk("", 0, 0, 0)
    assert list(whole(find(run))) == []


def test_complete_once_the_process_has_ended_and_all_is_here(run: Run) -> None:
    def complete() -> list[bool]:
        log = find(run)
        return [piece.complete for piece in (page(log, 0), tail(log, 9), before(log, 99))]

    write(run, b"one\n")
    streams.close(run.id, 1, 0, {"stdout": 8})
    assert complete() == [False] * 3
    write(run, b"two\n", offset=4)
    assert complete() == [True] * 3
    assert page(find(run), 8).complete
    assert not before(find(run), 4).complete


def test_a_character_that_has_half_arrived_comes_later(run: Run) -> None:
    write(run, b"a\xe2\x82")
    assert page(find(run), 0) == chunk("a", 0, 1, 3)
    assert tail(find(run), 1) == chunk("a", 0, 1, 3)
    assert before(find(run), 3) == chunk("a", 0, 1, 3)
    write(run, b"\xac", offset=3)
    assert page(find(run), 1) == chunk("€", 1, 4, 4)


def test_whole_lines_before_an_offset(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_BEFORE_BYTES", 10)
    write(run, b"one\r\ntwo\r\nthree\n\na longer line\nx")
    size = 32
    assert before(find(run), 10) == chunk("one\r\ntwo\r\n", 0, 10, size)
    assert before(find(run), 16) == chunk("three\n", 10, 16, size)
    assert before(find(run), 17) == chunk("three\n\n", 10, 17, size)
    assert before(find(run), size) == chunk("x", 31, 32, size)
    assert before(find(run), 999) == before(find(run), size)
    # A line that is longer than one answer comes in pieces.
    assert before(find(run), 31) == chunk("nger line\n", 21, 31, size)
    assert before(find(run), 21) == chunk("\na lo", 16, 21, size)
    assert before(find(run), 0) == chunk("", 0, 0, size)


@pytest.mark.parametrize("seed", range(10))
def test_pieces_make_the_whole(run: Run, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - dice, not secrets
    data = "".join(dice.choices(_PIECES, k=60)).encode(errors="surrogateescape")
    monkeypatch.setattr(logs, "_BEFORE_BYTES", dice.randint(4, 40))
    monkeypatch.setattr(logs, "_TAIL_BYTES", dice.randint(4, 40))
    monkeypatch.setattr(logs, "_PAGE_BYTES", dice.randint(4, 40))
    position = 0
    while position < len(data):
        size = dice.randint(1, 50)
        write(run, data[position : position + size], position)
        position += size
    streams.close(run.id, 1, 0, {})
    log, text = find(run), data.decode(errors="replace")
    assert read_all(run)[0] == text
    assert read_upwards(log, len(data)) == text
    assert b"".join(whole(log)) == data
    for lines in (0, 1, 2, 5):
        last = tail(log, lines)
        assert read_upwards(log, last.start) + last.text == text
    offset = 0
    while not (piece := page(log, offset)).complete:
        offset = piece.offset
        assert read_upwards(log, offset) + data[offset:].decode(errors="replace") == text


@pytest.mark.both_databases
def test_a_log_deleted_meanwhile_breaks_off(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_PAGE_BYTES", 4)
    write(run, b"one\ntwo\n")
    chunks = whole(find(run))
    assert next(chunks) == b"one\n"
    Chunk.delete().execute()
    with pytest.raises(LogGoneError, match="at byte 4"):
        next(chunks)


# --- A log of which the middle was left out. ---


def write_long(run: Run, chunks: list[bytes], limit: int = 20) -> None:
    offset = 0
    for data in chunks:
        offset = streams.append(key(run, 0, "stdout"), offset, data, limit=limit)


@pytest.mark.both_databases
def test_a_line_replaces_the_omitted_bytes(run: Run) -> None:
    write_long(run, [b"%09d\n" % number for number in range(200)])
    streams.close(run.id, 1, 0, {})
    size, line = 2000, "… 1,980 bytes left out here …\n"
    log = find(run)
    assert page(log, 0) == chunk("000000000\n", 0, 10, size)
    assert page(log, 10) == chunk(line, 10, 1990, size)
    assert page(log, 900) == chunk("… 1,090 bytes left out here …\n", 900, 1990, size)
    assert page(log, 1990) == chunk("000000199\n", 1990, size, size, complete=True)
    assert tail(log, 5) == chunk("000000199\n", 1990, size, size, complete=True)
    assert before(log, size) == chunk("000000199\n", 1990, size, size, complete=True)
    assert before(log, 1990) == chunk(line, 10, 1990, size)
    assert before(log, 10) == chunk("000000000\n", 0, 10, size)
    assert b"".join(whole(log)).decode() == f"000000000\n{line}000000199\n"
    assert log.length == len(b"".join(whole(log)))


def test_lines_and_characters_cut_by_a_gap(run: Run) -> None:
    write_long(run, ["one €".encode()[:6], b"\xac" * 6, b"x" * 30, "€€ two\n".encode()[1:]], 11)
    streams.close(run.id, 1, 0, {})
    text = "one \ufffd\n… 36 bytes left out here …\n€ two\n"
    assert read_all(run) == (text, 3)
    assert b"".join(whole(find(run))).count(b"left out") == 1


@pytest.mark.parametrize("seed", range(4))
def test_pieces_around_a_gap(run: Run, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - dice, not secrets
    monkeypatch.setattr(logs, "_PAGE_BYTES", dice.randrange(4, 40))
    monkeypatch.setattr(logs, "_BEFORE_BYTES", dice.randrange(4, 40))
    lines = [b"word " * dice.randrange(5) + b"\n" for _ in range(60)]
    write_long(run, lines, limit=dice.randrange(20, 300))
    streams.close(run.id, 1, 0, {})
    log = find(run)
    assert log.gap != (0, 0)
    assert read_all(run)[0] == read_upwards(log, log.size) == b"".join(whole(log)).decode()


def test_a_download_continues_after_a_gap_that_grows_meanwhile(run: Run) -> None:
    chunks = [b"%09d\n" % number for number in range(6)]
    write_long(run, chunks)
    log = find(run)
    assert log.length is None
    read = whole(log)
    assert [next(read), next(read)] == [chunks[0], "… 40 bytes left out here …\n".encode()]
    streams.append(key(run, 0, "stdout"), 60, b"000000006\n", limit=20)
    assert [text.decode() for text in read] == ["… 10 bytes left out here …\n"]


# --- Searching. ---


def search_all(run: Run, text: str) -> list[LogMatch]:
    """Return the text that a client reads to the end."""
    matches: list[LogMatch] = []
    offset, complete = 0, False
    while not complete:
        answer = search(find(run), text, offset)
        assert answer.start == offset
        assert answer.complete or answer.offset > offset
        matches += answer.matches
        offset, complete = answer.offset, answer.complete
    return matches


def test_lines_that_have_the_text_in_any_case(run: Run) -> None:
    write(run, "eins\r\nZWÖLF Straßen\n\nzwölf\neins zwölf".encode())
    assert search(find(run), "zwölf", 0) == LogSearch(
        *(0, "stdout", 1),
        (LogMatch(6, "ZWÖLF Straßen"), LogMatch(23, "zwölf"), LogMatch(30, "eins zwölf")),
        start=0,
        offset=30,
        size=41,
        complete=True,
    )
    assert search_all(run, "EINS") == [LogMatch(0, "eins"), LogMatch(30, "eins zwölf")]
    assert search_all(run, "STRASSE") == [LogMatch(6, "ZWÖLF Straßen")]
    for nowhere in ("dreizehn", "eins\r\nz", ".*", "\n"):
        assert search_all(run, nowhere) == []


def test_an_unfinished_line_is_searched_again(run: Run) -> None:
    write(run, b"one\ntwo")
    assert search(find(run), "two", 0).matches == (LogMatch(4, "two"),)
    assert search(find(run), "two three", 0).offset == 4
    write(run, b" three", offset=7)
    assert search(find(run), "two three", 4).matches == (LogMatch(4, "two three"),)
    streams.close(run.id, 1, 0, {})
    found = search(find(run), "two three", 4)
    assert (found.matches, found.offset) == ((LogMatch(4, "two three"),), 13)


def test_a_response_searches_a_limited_number_of_bytes(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_SEARCH_PIECE", 10)
    monkeypatch.setattr(logs, "_SEARCHED_BYTES", 30)
    write(run, b"0123\n" * 20 + b"last\n")
    found = search(find(run), "last", 0)
    assert (found.matches, found.offset, found.complete) == ((), 30, False)
    assert search_all(run, "last") == [LogMatch(100, "last")]


def test_a_log_that_is_deleted_meanwhile_ends_the_search(run: Run) -> None:
    write(run, b"one\n")
    log = find(run)
    Chunk.delete().execute()
    assert search(log, "one", 0) == LogSearch(0, "stdout", 1, (), 0, 0, 4, complete=False)


def test_a_long_line_is_cut(run: Run) -> None:
    write(run, "€".encode() * 1_000 + b"\n" + b"x" * 499 + b"\r\n")
    assert search_all(run, "€") == [LogMatch(0, "€" * 500)]
    assert search_all(run, "x") == [LogMatch(3001, "x" * 499)]


@pytest.mark.parametrize("seed", range(8))
def test_a_search_finds_the_same_as_a_search_line_by_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = random.Random(seed)  # noqa: S311 - dice, not secrets
    pieces = [b"a", b"B", "ß".encode(), "€".encode(), b"\xe2\x82", b"\n", b"\r\n"]
    data = b"".join(dice.choices(pieces, k=200))
    monkeypatch.setattr(logs, "_SEARCH_PIECE", dice.randint(16, 40))
    monkeypatch.setattr(logs, "_MATCHES", dice.randint(1, 9))
    write(run, data)
    streams.close(run.id, 1, 0, {})
    for text in ("ab", "ss", "B€", "\ufffd", "aa"):
        expected, offset = [], 0
        for line in data.split(b"\n"):
            shown = line.decode(errors="replace")
            if text.casefold() in shown.casefold():
                expected.append(LogMatch(offset, shown.removesuffix("\r")))
            offset += len(line) + 1
        assert search_all(run, text) == expected


def test_the_start_and_the_end_of_a_long_log_are_looked_through(run: Run) -> None:
    write_long(run, [b"needle 1", b" begins", b"needle 2\n" * 9, b"\nneedle 3\n"], limit=16)
    streams.close(run.id, 1, 0, {})
    answer = search(find(run), "needle", 0)
    assert answer.matches == (LogMatch(0, "needle 1"), LogMatch(97, "needle 3"))
    assert (answer.offset, answer.size, answer.complete) == (106, 106, True)
