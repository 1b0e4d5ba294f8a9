"""Series as JSON, CSV or a zip file, written piece by piece."""

import csv
import io
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, repeat
from json.encoder import encode_basestring
from typing import Any, Literal
from urllib.parse import quote

import numpy as np
import orjson

from mlbench.contract.csv_cells import escape_formula, escape_formula_value
from mlbench_master.reading.points import Chunks, Points
from mlbench_master.reading.selection import NamedSeries
from mlbench_master.recording.blocks import Note

Kind = Literal["pod", "run"]
Format = Literal["json", "zip", "csv"]

_CONTENT_TYPES = {
    "json": "application/json",
    "zip": "application/zip",
    "csv": "text/csv; charset=utf-8",
}
_CSV_COLUMNS = ("series", "date", "value", "cumulative", "metadata", "added")
# Larger blocks cost memory, smaller ones time.
_BLOCK_BYTES = 64 << 10
# The result that MLBench's tasks report at their end.
_TASK_RESULTS = ("TaskResult", "TaskResult @ 0")
# Characters that some file system, or careful unpacker, refuses; and %, which escapes these.
_UNSAFE = '/\\:*?"<>|%'
# File systems take 255, and unpackers may add something.
_MAX_NAME_BYTES = 200


@dataclass(frozen=True)
class Owner:
    """A pod or a run, and its series."""

    kind: Kind
    name: str
    """The pod's name or the run's id."""
    series: NamedSeries
    pods: Iterable[tuple[str, NamedSeries]] = ()
    """A run's pods with their series, for its zip file."""
    official: Callable[[], str] = str
    """Returns the official result of a run for its zip file; "" without one."""


@dataclass(frozen=True)
class FormattedSeries:
    """The answer to a client, made as its pieces are taken."""

    chunks: Iterator[bytes]
    """At least one."""
    content_type: str
    file_name: str
    """The name to save it by; empty if it is to be shown."""


def write_one(owner: Owner, format_: str, title: str) -> FormattedSeries:
    """Write the series of one pod or run; ``title`` becomes part of a zip file's name."""
    match format_:
        case "zip":
            chunks = _to_zip([("", _files(owner))])
        case "csv":
            chunks = chain(_csv([_CSV_COLUMNS]), _csv_lines((), owner.series))
        case _:
            chunks = _json_series(owner.series)
    return _answer(chunks, format_, title)


def write_all(owners: Iterable[Owner], kind: str, format_: str) -> FormattedSeries:
    """Write the series of many pods, runs, or of ``all`` kinds, each by its name."""
    match format_:
        case "zip":
            chunks = _to_zip((owner.name, _files(owner)) for owner in owners)
        case "csv":
            header = _csv([("owner" if kind == "all" else kind, *_CSV_COLUMNS)])
            lines = (_csv_lines((owner.name,), owner.series) for owner in owners)
            chunks = chain(header, chain.from_iterable(lines))
        case _:
            chunks = _json_object((owner.name, _json_series(owner.series)) for owner in owners)
    return _answer(chunks, format_, kind if kind == "all" else f"{kind}s")


def _answer(chunks: Iterator[bytes], format_: str, title: str) -> FormattedSeries:
    name = f"metrics_{title}.zip" if format_ == "zip" else ""
    return FormattedSeries(_in_blocks(chunks), _CONTENT_TYPES[format_], name)


def _in_blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Join small pieces, because each piece is sent separately."""
    held: list[bytes] = []
    size = 0
    for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        if size >= _BLOCK_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if size:
        yield b"".join(held)


def _json_object(entries: Iterable[tuple[str, Iterable[bytes]]]) -> Iterator[bytes]:
    before = b"{"
    for name, value in entries:
        yield before + orjson.dumps(name) + b":"
        yield from value
        before = b","
    yield b"{}" if before == b"{" else b"}"


def _json_series(series: NamedSeries) -> Iterator[bytes]:
    """Write ``{name: [{"date", "value"}, …], …}``; averages have ``min`` and ``max``."""
    return _json_object(
        (name, _json_list(_json_points(points) for points in chunks)) for name, chunks in series
    )


def _json_list(parts: Iterable[list[str]], around: str = "") -> Iterator[bytes]:
    """Write a list of entries, with a text such as a line break before each and at the end."""
    before = f"[{around}"
    for entries in parts:
        yield (before + f",{around}".join(entries)).encode()
        before = f",{around}"
    yield f"{around}]".encode()


def _json_points(points: Points) -> list[str]:
    entries = [f'{{"date":"{date}","value":{value}}}' for date, value in _dated_values(points)]
    for i, note in points.notes.items():
        more = ""
        if note.cumulative is not None:
            more += f',"cumulative":{_flag(note.cumulative)}'
        if note.metadata is not None:
            more += f',"metadata":{_json(note.metadata)}'
        if note.minimum is not None:
            more += f',"min":"{note.minimum}","max":"{note.maximum}"'
        if note.added:
            more += ',"added":true'
        entries[i] = f"{entries[i][:-1]}{more}}}"
    return entries


def _dated_values(points: Points) -> Iterator[tuple[str, str]]:
    """Return the date of each point, and its value as JSON's text."""
    return zip(_dates(points), map(encode_basestring, points.values), strict=True)


def _dates(points: Points) -> list[str]:
    """Return the date of each point, as ``timestamps.to_text`` writes it."""
    moments = points.times_us.view("datetime64[us]")
    dates: list[str] = np.datetime_as_string(moments, unit="us", timezone="UTC").tolist()
    return dates


def _csv_lines(before: tuple[str, ...], series: NamedSeries) -> Iterator[bytes]:
    """Write lines (RFC 4180) with the columns ``before``, and texts that spreadsheets may open."""
    for name, chunks in series:
        for points in chunks:
            cumulative, metadata, added = ([""] * len(points) for _ in range(3))
            for i, note in points.notes.items():
                cumulative[i], metadata[i] = _flag(note.cumulative), _json(note.metadata)
                added[i] = _flag(note.added or None)
            first = (repeat(escape_formula(cell)) for cell in (*before, name))
            values = map(escape_formula_value, points.values)
            columns = (_dates(points), values, cumulative, metadata, added)
            yield from _csv(zip(*first, *columns, strict=False))


def _csv(rows: Iterable[tuple[str, ...]]) -> Iterator[bytes]:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    yield text.getvalue().encode()


def _flag(value: bool | None) -> str:
    return "" if value is None else "true" if value else "false"


def _json(value: Any) -> str:
    return "" if value is None else orjson.dumps(value).decode()


_File = tuple[str, Iterator[bytes]]
"""The name and the content of a file, which is read before the next one."""


def _files(owner: Owner) -> Iterator[_File]:
    """Yield ``result_<series>.json`` for each series, and ``<pod>_<series>.json`` for a run's pods.

    The official result is in ``official_result.txt``: what the run's code reported, or else the
    sentence that is computed from the run's result.
    """
    official = ""
    for name, chunks in owner.series:
        if owner.kind == "run" and name in _TASK_RESULTS:
            recorded = [
                value
                for points in chunks
                for i, value in enumerate(points.values)
                if not points.notes.get(i, Note()).added
            ]
            official = "".join(recorded[-1:])
        else:
            yield f"result_{name}.json", _json_file(chunks)
    if official := official or owner.official():
        yield "official_result.txt", iter([official.encode()])
    for pod, series in owner.pods:
        for name, chunks in series:
            yield f"{pod}_{name}.json", _json_file(chunks)


def _json_file(chunks: Chunks) -> Iterator[bytes]:
    return _json_list((_indented_points(points) for points in chunks), "\n")


def _indented_points(points: Points) -> list[str]:
    """Write points indented as MLBench does."""
    entries = [
        f'    {{\n        "date": "{date}",\n        "value": {value},\n        "cumulative": false'
        for date, value in _dated_values(points)
    ]
    for i, note in points.notes.items():
        if note.cumulative:
            entries[i] = entries[i].removesuffix("false") + "true"
        if note.metadata is not None:
            entries[i] += f',\n        "metadata": {_json(note.metadata)}'
        if note.added:
            entries[i] += ',\n        "added": true'
    return [f"{entry}\n    }}" for entry in entries]


def _to_zip(folders: Iterable[tuple[str, Iterable[_File]]]) -> Iterator[bytes]:
    """Write a zip file; folders without a name put their files at the top."""
    written = _Written()
    paths: set[str] = set()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for folder, files in folders:
            prefix = f"{_safe_name(folder)}/" if folder else ""
            for name, content in files:
                path = _unused_path(prefix, _safe_name(name), paths)
                info = zipfile.ZipInfo(path, datetime.now(UTC).timetuple()[:6])
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = 0o644 << 16
                # The size is not known yet, and may need 64 bits.
                with archive.open(info, "w", force_zip64=True) as file:
                    for chunk in content:
                        file.write(chunk)
                        yield written.take()
    yield written.take()


class _Written(io.RawIOBase):
    """The bytes that a zip file writes, until they are taken."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._pieces.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken


def _safe_name(name: str) -> str:
    """Escape a name so that it is one part of a path on every system."""
    if set(name) <= {"."}:
        return name.replace(".", "%2E")
    return "".join(
        quote(char, safe="") if char in _UNSAFE or not char.isprintable() else char for char in name
    )


def _unused_path(folder: str, name: str, used: set[str]) -> str:
    """Return a path, not too long, that no other file has, and add it to those in use."""
    whole, dot, ending = name.rpartition(".")
    stem = whole.encode()[:_MAX_NAME_BYTES].decode(errors="ignore")
    path, n = f"{folder}{stem}{dot}{ending}", 1
    # Some file systems do not tell upper from lower case.
    while path.casefold() in used:
        n += 1
        path = f"{folder}{stem} ({n}){dot}{ending}"
    used.add(path.casefold())
    return path
