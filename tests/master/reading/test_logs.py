"""Logs, page by page and by their last lines: every byte once, no character torn."""

import pytest

from master.models import Run
from master.reading import logs
from master.reading.logs import LogPage, page, tail
from master.recording import streams
from tests.master.making import key


def write(run: Run, data: bytes, offset: int = 0) -> None:
    streams.append(key(run, 0, "stdout"), offset, data)


def read_all(run: Run) -> tuple[str, int]:
    """Return the text that a follower of the log sees, and in how many pages."""
    text, offset, pages = "", 0, 0
    while True:
        found = page(run, 0, "stdout", offset)
        text, pages = text + found.text, pages + 1
        if found.complete or found.offset == offset:
            return text, pages
        offset = found.offset


def test_nothing_written_yet(run: Run) -> None:
    assert page(run, 0, "stdout", 0) == LogPage(1, "", 0, complete=False)
    assert tail(run, 0, "stdout", 5) == LogPage(1, "", 0, complete=False)


def test_from_an_offset_on(run: Run) -> None:
    write(run, b"one\ntwo\n")
    assert page(run, 0, "stdout", 0) == LogPage(1, "one\ntwo\n", 8, complete=False)
    assert page(run, 0, "stdout", 4) == LogPage(1, "two\n", 8, complete=False)
    assert page(run, 0, "stdout", 8) == LogPage(1, "", 8, complete=False)
    assert page(run, 0, "stdout", 999) == LogPage(1, "", 8, complete=False)


def test_complete_once_the_process_has_ended_and_all_is_here(run: Run) -> None:
    write(run, b"one\n")
    streams.close(run.id, 1, 0, {"stdout": 8})
    assert not page(run, 0, "stdout", 0).complete
    assert not tail(run, 0, "stdout", 9).complete
    write(run, b"two\n", offset=4)
    assert page(run, 0, "stdout", 0).complete
    assert page(run, 0, "stdout", 8).complete
    assert tail(run, 0, "stdout", 9).complete


def test_a_long_log_comes_in_pages(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_PAGE_BYTES", 10)
    whole = "0123456789" * 3 + "end"
    write(run, whole.encode())
    streams.close(run.id, 1, 0, {})
    assert read_all(run) == (whole, 4)


@pytest.mark.parametrize("size", range(4, 12))
def test_no_character_is_torn_between_pages(
    run: Run, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(logs, "_PAGE_BYTES", size)
    whole = "aü€𝄞 " * 4
    write(run, whole.encode())
    assert read_all(run)[0] == whole


def test_a_character_that_has_half_arrived_comes_later(run: Run) -> None:
    write(run, b"a\xe2\x82")
    assert page(run, 0, "stdout", 0) == LogPage(1, "a", 1, complete=False)
    write(run, b"\xac", offset=3)
    assert page(run, 0, "stdout", 1) == LogPage(1, "€", 4, complete=False)


def test_bytes_that_are_no_text_are_replaced(run: Run) -> None:
    write(run, b"a\xffb\xe2\x82")
    streams.close(run.id, 1, 0, {})
    assert page(run, 0, "stdout", 0) == LogPage(1, "a\ufffdb\ufffd", 5, complete=True)


@pytest.mark.parametrize(
    ("lines", "text"),
    [(0, ""), (1, "three"), (2, "two\nthree"), (3, "one\ntwo\nthree"), (99, "one\ntwo\nthree")],
)
def test_the_last_lines(run: Run, lines: int, text: str) -> None:
    write(run, b"one\ntwo\nthree")
    assert tail(run, 0, "stdout", lines) == LogPage(1, text, 13, complete=False)


def test_ranks_streams_and_attempts_are_apart(run: Run) -> None:
    write(run, b"rank 0\n")
    streams.append(key(run, 1, "stdout"), 0, b"rank 1\n")
    streams.append(key(run, 0, "stderr"), 0, b"warning\n")
    assert tail(run, 1, "stdout", 9).text == "rank 1\n"
    assert tail(run, 0, "stderr", 9).text == "warning\n"
    run.attempt = 2
    assert page(run, 0, "stdout", 0) == LogPage(2, "", 0, complete=False)
