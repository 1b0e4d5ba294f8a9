"""Series as JSON and CSV, in pieces."""

import csv
import io
from collections.abc import Iterable, Iterator
from itertools import repeat
from json.encoder import encode_basestring
from typing import Any

import orjson

from master.reading.dates import Dates
from master.reading.points import Note, Points
from master.reading.series import NamedSeries
from mlbench.csv_cells import harmless, harmless_value

AllSeries = Iterable[tuple[str, NamedSeries | str]]
"""The series of several pods or runs, by the pod's name or the run's id.

In place of those that are not whole any more, a text says so.
"""

# Larger ones cost memory, smaller ones time.
_BLOCK_BYTES = 64 << 10


def to_json(series: NamedSeries, dates: Dates | None = None) -> Iterator[bytes]:
    """Yield ``{name: [{"date", "value"}, …], …}``; averages with ``min`` and ``max``."""
    dates = Dates() if dates is None else dates
    before = b"{"
    for name, pieces in series:
        yield before + orjson.dumps(name) + b":["
        before = b","
        comma = b""
        for points in pieces:
            yield comma + ",".join(_entries(points, dates)).encode()
            comma = b","
        yield b"]"
    yield b"{}" if before == b"{" else b"}"


def all_to_json(everything: AllSeries) -> Iterator[bytes]:
    """Yield ``{pod or run: {name: [{"date", "value"}, …], …}, …}``, or a text for the series."""
    dates = Dates()
    before = b"{"
    for owner, series in everything:
        yield before + orjson.dumps(owner) + b":"
        yield from [orjson.dumps(series)] if isinstance(series, str) else to_json(series, dates)
        before = b","
    yield b"{}" if before == b"{" else b"}"


def to_csv(series: NamedSeries) -> Iterator[bytes]:
    """Yield lines of ``series,date,value,cumulative,metadata`` (RFC 4180), with a header.

    Names, and values that are no numbers, are harmless to spreadsheets.
    """
    yield _csv([("series", *_COLUMNS)])
    yield from _csv_lines((), series, Dates())


def all_to_csv(kind: str, everything: AllSeries) -> Iterator[bytes]:
    """Yield the same with a first column for the pod or run, which is called ``kind``.

    A text for its series is the value of a line without series or date.
    """
    dates = Dates()
    yield _csv([(kind, "series", *_COLUMNS)])
    for owner, series in everything:
        if isinstance(series, str):
            yield _csv([(owner, "", "", series, "", "")])
        else:
            yield from _csv_lines((owner,), series, dates)


def in_blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in fewer pieces: each goes out on its own."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= _BLOCK_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if size:
        yield b"".join(held)


_COLUMNS = ("date", "value", "cumulative", "metadata")


def _entries(points: Points, dates: Dates) -> list[str]:
    entries = [
        f'{{"date":"{date}","value":{value}}}'
        for date, value in zip(
            dates.write(points.times_us), map(encode_basestring, points.values), strict=True
        )
    ]
    for i, note in points.notes.items():
        entries[i] = f"{entries[i][:-1]}{_given(note)}}}"
    return entries


def _given(note: Note) -> str:
    given = ""
    if note.cumulative is not None:
        given += f',"cumulative":{_flag(note.cumulative)}'
    if note.metadata is not None:
        given += f',"metadata":{_json(note.metadata)}'
    if note.minimum is not None:
        given += f',"min":"{note.minimum}","max":"{note.maximum}"'
    return given


def _csv_lines(before: tuple[str, ...], series: NamedSeries, dates: Dates) -> Iterator[bytes]:
    for name, pieces in series:
        for points in pieces:
            cumulative, metadata = [""] * len(points), [""] * len(points)
            for i, note in points.notes.items():
                cumulative[i], metadata[i] = _flag(note.cumulative), _json(note.metadata)
            first = (repeat(harmless(cell)) for cell in (*before, name))
            values = map(harmless_value, points.values)
            columns = (dates.write(points.times_us), values, cumulative, metadata)
            yield _csv(zip(*first, *columns, strict=False))


def _flag(value: bool | None) -> str:
    return "" if value is None else "true" if value else "false"


def _json(value: Any) -> str:
    return "" if value is None else orjson.dumps(value).decode()


def _csv(rows: Iterable[tuple[str, ...]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()
