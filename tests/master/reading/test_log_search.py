"""Searching a log: every line that has the text once, however the log is read."""

import random

import pytest

from master.models import Chunk, Run
from master.reading import log_search, logs
from master.reading.log_search import LogSearch, Match, search
from master.recording import streams
from tests.master.making import key


def write(run: Run, data: bytes, offset: int = 0) -> None:
    streams.append(key(run, 0, "stderr"), offset, data)


def find(run: Run) -> logs.Log:
    return logs.find(run, 0, "stderr")


def search_all(run: Run, text: str) -> list[Match]:
    """Return what a client finds that goes on until there is no more."""
    matches: list[Match] = []
    offset, complete = 0, False
    while not complete:
        found = search(find(run), text, offset)
        assert found.start == offset
        assert found.complete or found.offset > offset
        matches += found.matches
        offset, complete = found.offset, found.complete
    return matches


@pytest.mark.both_databases
def test_lines_that_have_the_text_in_any_case(run: Run) -> None:
    write(run, "eins\r\nZWÖLF Straßen\n\nzwölf\neins zwölf".encode())
    assert search(find(run), "zwölf", 0) == LogSearch(
        1,
        [Match(6, "ZWÖLF Straßen"), Match(23, "zwölf"), Match(30, "eins zwölf")],
        start=0,
        offset=30,
        size=41,
        complete=True,
    )
    assert search_all(run, "EINS") == [Match(0, "eins"), Match(30, "eins zwölf")]
    assert search_all(run, "STRASSE") == [Match(6, "ZWÖLF Straßen")]
    for nowhere in ("dreizehn", "eins\r\nz", ".*", "\n"):
        assert search_all(run, nowhere) == []


def test_from_an_offset_on(run: Run) -> None:
    write(run, b"one\ntwo one\none\n")
    found = search(find(run), "one", 4)
    assert (found.start, found.offset, found.complete) == (4, 16, True)
    assert found.matches == [Match(4, "two one"), Match(12, "one")]
    assert search(find(run), "one", 999).matches == []


def test_nothing_written_yet(run: Run) -> None:
    assert search(find(run), "one", 0) == LogSearch(1, [], 0, 0, 0, complete=True)


def test_a_line_that_goes_on_is_looked_through_again(run: Run) -> None:
    write(run, b"one\ntwo")
    assert search(find(run), "two", 0).matches == [Match(4, "two")]
    assert search(find(run), "two three", 0).offset == 4
    write(run, b" three", offset=7)
    assert search(find(run), "two three", 4).matches == [Match(4, "two three")]
    streams.close(run.id, 1, 0, {})
    found = search(find(run), "two three", 4)
    assert (found.matches, found.offset) == ([Match(4, "two three")], 13)


def test_so_many_matches_in_one_answer(run: Run) -> None:
    write(run, b"one\ntwo\n" * 500)
    found = search(find(run), "one", 0)
    assert len(found.matches) == 200
    assert (found.offset, found.complete) == (8 * 199 + 4, False)
    assert search_all(run, "one") == [Match(8 * i, "one") for i in range(500)]


def test_so_much_is_looked_through_for_one_answer(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_search, "_PIECE", 10)
    monkeypatch.setattr(log_search, "_SCANNED", 30)
    write(run, b"0123\n" * 20 + b"last\n")
    found = search(find(run), "last", 0)
    assert (found.matches, found.offset, found.complete) == ([], 30, False)
    assert search_all(run, "last") == [Match(100, "last")]


@pytest.mark.both_databases
def test_a_log_that_is_deleted_meanwhile_ends_the_search(run: Run) -> None:
    write(run, b"one\n")
    log = find(run)
    Chunk.delete().execute()
    assert search(log, "one", 0) == LogSearch(1, [], 0, 0, 4, complete=False)


def test_a_long_line_is_cut(run: Run) -> None:
    write(run, "€".encode() * 1_000 + b"\n" + b"x" * 499 + b"\r\n")
    assert search_all(run, "€") == [Match(0, "€" * 500)]
    assert search_all(run, "x") == [Match(3001, "x" * 499)]


@pytest.mark.parametrize("end", [b"", b"\nafter it\n"])
def test_a_line_longer_than_what_is_read_at_a_time(
    run: Run, monkeypatch: pytest.MonkeyPatch, end: bytes
) -> None:
    monkeypatch.setattr(log_search, "_PIECE", 64)
    text = "".join(f"{i:04}€" for i in range(100))
    write(run, b"first\n" + text.encode() + end)
    line = Match(6, text)
    # Wherever the text begins, also where it lies in two pieces.
    for i in range(0, 480, 7):
        assert search_all(run, text[i : i + 9]) == [line]
    assert search_all(run, "9999") == []
    assert search_all(run, "after") == ([Match(707, "after it")] if end else [])


@pytest.mark.parametrize("seed", range(20))
def test_it_finds_what_looking_at_each_line_finds(
    run: Run, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = random.Random(seed)  # noqa: S311 - dice, not secrets
    data = b"".join(
        dice.choice([b"a", b"B", "ß".encode(), "€".encode(), b"\xe2\x82", b"\n", b"\r\n"])
        for _ in range(200)
    )
    monkeypatch.setattr(log_search, "_PIECE", dice.randint(16, 40))
    monkeypatch.setattr(log_search, "_MATCHES", dice.randint(1, 9))
    write(run, data)
    streams.close(run.id, 1, 0, {})
    for text in ("ab", "ss", "B€", "\ufffd", "aa"):
        expected, offset = [], 0
        for line in data.split(b"\n"):
            shown = line.decode(errors="replace")
            if text.casefold() in shown.casefold():
                expected.append(Match(offset, shown.removesuffix("\r")))
            offset += len(line) + 1
        assert search_all(run, text) == expected


@pytest.mark.both_databases
def test_the_start_and_the_end_of_a_long_log_are_looked_through(run: Run) -> None:
    offset = 0
    for data in (b"needle 1", b" begins", b"needle 2\n" * 9, b"\nneedle 3\n"):
        offset = streams.append(key(run, 0, "stderr"), offset, data, limit=16)
    streams.close(run.id, 1, 0, {})
    found = search(find(run), "needle", 0)
    assert [(match.offset, match.text) for match in found.matches] == [
        (0, "needle 1"),
        (97, "needle 3"),
    ]
    assert (found.offset, found.size, found.complete) == (106, 106, True)
