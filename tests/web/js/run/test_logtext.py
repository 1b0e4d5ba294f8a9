"""``run/logtext.js``: a line of a log as a terminal shows it."""

import pytest

from tests.web.js.conftest import Call

_MODULE = "js/run/logtext.js"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("plain <b>text</b>", "plain <b>text</b>"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]0;title\x1b\\after", "after"),
        ("10 %\r100 %", "100 %"),
        ("long text\rshort", "shorttext"),
        ("whole\r", "whole"),
        ("\x1b[", "\x1b["),
    ],
)
def test_what_a_terminal_shows(compute: Call, line: str, shown: str) -> None:
    assert compute(_MODULE, "(m, line) => m.shownLine(line)", line) == shown


def test_a_line_that_nobody_reads_to_its_end_is_cut(compute: Call) -> None:
    shown = compute(_MODULE, "(m, line) => m.shownLine(line)", "x" * 10_000)
    assert shown == f"{'x' * 4000}… (10000 characters)"


def test_a_line_being_written_keeps_what_is_still_seen(compute: Call) -> None:
    compact = "(m, lines) => lines.map(m.compact)"
    lines = ["no return", "12345\rab\rX", "12345\r", "1 %\r2 %\r3 %\r"]
    assert compute(_MODULE, compact, lines) == ["no return", "ab345\rX", "12345\r", "3 %\r"]


@pytest.mark.parametrize(
    ("line", "search", "pieces"),
    [
        ("an Error, an error", "ERROR", ["an ", "*Error", ", an ", "*error"]),
        ("aaa", "aa", ["*aa", "a"]),
        ("none", "x", ["none"]),
        ("none", "", ["none"]),
        (".*", "*", [".", "**"]),
        # In lowercase it has one letter more: places would be wrong.
        ("İx", "x", ["İx"]),
    ],
)
def test_what_matches_is_marked(compute: Call, line: str, search: str, pieces: list[str]) -> None:
    mark = """(m, [line, search]) =>
        m.marked(line, search).map((one) => (one.isMatch ? "*" : "") + one.text)"""
    assert compute(_MODULE, mark, [line, search]) == pieces
