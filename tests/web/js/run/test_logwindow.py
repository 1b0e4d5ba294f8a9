"""``run/logwindow.js``: the part of a log that the page holds, and which bytes it stands for."""

from typing import Any

from tests.web.js.conftest import Call

_MODULE = "js/run/logwindow.js"
_PLAY = """({ LogWindow }, steps) => {
    const held = new LogWindow();
    for (const [what, ...given] of steps) held[what](...given);
    const { start, end, size, first, count, isAtEnd } = held;
    const lines = Array.from({ length: count }, (_, place) => held.line(place));
    return { start, end, size, first, count, isAtEnd, lines };
}"""


def _page(log: bytes, start: int, end: int, size: int | None = None) -> dict[str, Any]:
    """Return what the API answers of a log."""
    text = log[start:end].decode(errors="replace")
    whole = len(log) if size is None else size
    return {"text": text, "start": start, "offset": end, "size": whole, "complete": False}


def _play(compute: Call, *steps: Any) -> Any:
    return compute(_MODULE, _PLAY, steps)


def test_a_line_that_is_still_written_goes_on(compute: Call) -> None:
    log = "eins\nzwölf\ndrei".encode()
    first = ["append", _page(log, 0, 7, size=7)]
    held = _play(compute, first)
    assert (held["lines"], held["isAtEnd"]) == (["eins", "zw"], True)
    held = _play(compute, first, ["append", _page(log, 7, len(log))])
    assert held["lines"] == ["eins", "zwölf", "drei"]
    assert (held["start"], held["end"], held["isAtEnd"]) == (0, len(log), True)


def test_a_line_in_which_a_page_breaks_off_is_left_to_the_next_one(compute: Call) -> None:
    log = "eins\nzwölf\ndrei\n".encode()
    held = _play(compute, ["append", _page(log, 0, 9)])
    assert (held["lines"], held["end"], held["isAtEnd"]) == (["eins"], 5, False)
    held = _play(compute, ["append", _page(log, 0, 9)], ["append", _page(log, 5, len(log))])
    assert held["lines"] == ["eins", "zwölf", "drei"]


def test_of_bytes_that_are_no_text_each_counts_once(compute: Call) -> None:
    log = b"\xff\xff\none\ntwo\n"
    held = _play(compute, ["append", _page(log, 0, 9)], ["append", _page(log, 9, len(log))])
    assert held["lines"] == ["\N{REPLACEMENT CHARACTER}" * 2, "one", "two"]
    assert held["end"] == len(log)


def test_upwards_the_lines_keep_their_numbers(compute: Call) -> None:
    log = b"a\nb\nc\nd\n"
    held = _play(compute, ["append", _page(log, 4, 8)], ["prepend", _page(log, 0, 4)])
    assert held["lines"] == ["a", "b", "c", "d"]
    assert (held["first"], held["start"], held["end"]) == (-2, 0, 8)


def test_nothing_written_yet(compute: Call) -> None:
    held = _play(compute, ["append", _page(b"", 0, 0)], ["append", _page(b"one", 0, 3)])
    assert (held["lines"], held["end"]) == (["one"], 3)
    assert _play(compute)["lines"] == []


def test_what_is_far_from_the_reader_is_forgotten(compute: Call) -> None:
    log = b"".join(b"%d\n" % i for i in range(50_000))
    whole = ["append", _page(log, 0, len(log))]
    at_end = _play(compute, whole, ["trim", 50_000, 50_000])
    assert at_end["count"] <= 20_000
    assert (at_end["lines"][-1], at_end["end"]) == ("49999", len(log))
    assert at_end["lines"][0] == str(at_end["first"])
    assert log[at_end["start"] :].startswith(at_end["lines"][0].encode() + b"\n")
    at_start = _play(compute, whole, ["trim", 0, 40])
    assert at_start["count"] <= 20_000
    assert (at_start["lines"][0], at_start["first"], at_start["start"]) == ("0", 0, 0)
    assert log[at_start["end"] :].startswith(b"%d\n" % at_start["count"])


def test_a_log_that_always_ends_within_a_line_is_forgotten_too(compute: Call) -> None:
    line = "a line — of some length"
    log = "".join(f"{line}\n" for _ in range(40_000)).encode()
    width = len(line.encode()) + 1
    # Each page ends in the middle of a line, of which the next one has the rest.
    ends = [width * lines + 3 for lines in range(100, 40_000, 100)]
    pages = [_page(log, a, b, size=b) for a, b in zip([0, *ends], ends, strict=False)]
    held = _play(compute, *(["append", page] for page in pages), ["trim", 40_000, 40_000])
    assert held["count"] <= 20_000
    assert set(held["lines"][:-1]) == {line}
    assert held["lines"][-1] == line[:3]
    assert (held["start"] % width, held["end"]) == (0, ends[-1])


def test_a_progress_bar_does_not_grow(compute: Call) -> None:
    bars = [f"\r{i:3} %" for i in range(101)]
    log, steps, at = "".join(bars).encode(), [], 0
    for bar in bars:
        steps.append(["append", _page(log, at, at + len(bar), size=at + len(bar))])
        at += len(bar)
    held = _play(compute, *steps)
    assert held["lines"] == [" 99 %\r100 %"]
    assert held["end"] == len(log)
