"""Series as a zip file, in pieces: one JSON file for each series, named as MLBench named them."""

import io
import time
import zipfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from json.encoder import encode_basestring
from urllib.parse import quote

import orjson

from master.models import Rank, Run
from master.reading.completeness import LostSamplesError
from master.reading.dates import Dates
from master.reading.points import Note, Pieces, Points
from master.reading.selection import Selection
from master.reading.series import NamedSeries, SeriesReader

File = tuple[str, Iterator[bytes]]
"""A file's name and what is in it; it is read before the next one."""

FilesInFolders = Iterable[tuple[str, File]]
"""Files, each with the name of its folder; empty for none."""

# What MLBench's task reports at its end.
_TASK_RESULTS = ("TaskResult", "TaskResult @ 0")
# What no file system, or no careful unpacker, takes in a name; % as it marks these.
_UNSAFE = '/\\:*?"<>|%'
# File systems take 255, and unpackers may add something.
_LONGEST_NAME_BYTES = 200


def run_files(reader: SeriesReader, run: Run, selection: Selection) -> Iterator[File]:
    """Yield ``result_<series>.json`` for a run, and ``<pod>_<series>.json`` for each of its pods.

    What the pods tell is limited to the time of the run. The result that a task reported as a
    whole is in ``official_result.txt``.
    """
    official = None
    for name, pieces in reader.run(run.id, selection):
        if name in _TASK_RESULTS:
            official = _last_value(pieces)
        else:
            yield f"result_{name}.json", _to_json(pieces)
    if official is not None:
        yield "official_result.txt", iter([official.encode()])
    during = selection.within(
        round(run.created_at * 1e6), round((run.finished_at or time.time()) * 1e6)
    )
    for pod in _pods(run):
        for name, pieces in reader.pod(pod, during):
            yield f"{pod}_{name}.json", _to_json(pieces)


def series_files(series: NamedSeries) -> Iterator[File]:
    """Yield ``result_<series>.json`` for each series."""
    for name, pieces in series:
        yield f"result_{name}.json", _to_json(pieces)


def or_words(files: Iterator[File]) -> Iterator[File]:
    """Yield files, and ``INCOMPLETE.txt`` for those of which Prometheus has lost samples."""
    try:
        yield from files
    except LostSamplesError as error:
        yield "INCOMPLETE.txt", iter([str(error).encode()])


def in_folders(folders: Iterable[tuple[str, Iterator[File]]]) -> FilesInFolders:
    """Yield each folder's name along with each of its files."""
    for folder, files in folders:
        for file in files:
            yield folder, file


def to_zip(files: FilesInFolders) -> Iterator[bytes]:
    """Yield a zip file."""
    written = _Written()
    names: set[str] = set()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for folder, (name, content) in files:
            path = _unused(_safe(name), f"{_safe(folder)}/" if folder else "", names)
            info = zipfile.ZipInfo(path, datetime.now(UTC).timetuple()[:6])
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            # How long it gets is not known yet.
            with archive.open(info, "w", force_zip64=True) as file:
                for piece in content:
                    file.write(piece)
                    yield written.take()
    yield written.take()


class _Written(io.RawIOBase):
    """What a zip file writes, until it is taken."""

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


def _to_json(pieces: Pieces) -> Iterator[bytes]:
    """Yield a list of points, indented as MLBench does."""
    dates = Dates()
    before = "[\n"
    for points in pieces:
        yield (before + ",\n".join(_entries(points, dates))).encode()
        before = ",\n"
    yield b"\n]"


def _entries(points: Points, dates: Dates) -> list[str]:
    entries = [
        f'    {{\n        "date": "{date}",\n        "value": {value},\n'
        f'        "cumulative": false\n    }}'
        for date, value in zip(
            dates.write(points.times_us), map(encode_basestring, points.values), strict=True
        )
    ]
    for i, note in points.notes.items():
        entries[i] = _with_note(entries[i], note)
    return entries


def _with_note(entry: str, note: Note) -> str:
    head = entry.removesuffix("false\n    }")
    more = ""
    if note.metadata is not None:
        more = f',\n        "metadata": {orjson.dumps(note.metadata).decode()}'
    return f"{head}{'true' if note.cumulative else 'false'}{more}\n    }}"


def _last_value(pieces: Pieces) -> str:
    value = ""
    for points in pieces:
        value = points.values[-1]
    return value


def _pods(run: Run) -> list[str]:
    found = Rank.select(Rank.worker).where(Rank.run == run.id).distinct()
    return sorted(rank.worker for rank in found)


def _safe(name: str) -> str:
    """Return a name that is one part of a path everywhere, others only for other names."""
    if set(name) <= {"."}:
        return name.replace(".", "%2E")
    return "".join(
        quote(one, safe="") if one in _UNSAFE or not one.isprintable() else one for one in name
    )


def _unused(name: str, folder: str, used: set[str]) -> str:
    """Return a path that no other file has, and that is not too long, and note it as used."""
    whole, dot, ending = name.rpartition(".")
    stem = whole.encode()[:_LONGEST_NAME_BYTES].decode(errors="ignore")
    path, n = f"{folder}{stem}{dot}{ending}", 1
    # Some file systems take large and small letters for the same.
    while path.casefold() in used:
        n += 1
        path = f"{folder}{stem} ({n}){dot}{ending}"
    used.add(path.casefold())
    return path
