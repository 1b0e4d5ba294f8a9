"""Archives: one file with all that is known of a run, which tells whether a bit of it has changed.

An archive is a zip file. ``run.json`` and ``rows.json`` describe the run, ``files/`` has what its
ranks left, ``samples.parquet`` a row for each sample, series after series, and ``digests.json`` the
SHA-256 of each series and of each other member. The zip file's comment is the SHA-256 of all that
comes before it.

This needs pyarrow, which is imported when an archive is opened: agents and ``mlbench --help`` have
to do without.
"""

import hashlib
import io
import json
import math
import struct
import zipfile
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from mlbench.errors import MLBenchError
from mlbench.series import series_name

FORMAT = 1
SUFFIX = ".mlbench"
ADDED_SUFFIX = f".added{SUFFIX}"
WORDS_SUFFIX = ".words"  # of the file beside one, with what the user says of its runs
RUN, ROWS, AUTOPSIES = "run.json", "rows.json", "autopsies.json"
"""What the API answers of the run, and the rows of the database that this is made from."""
ADDED = "added.json"
"""Of what was posted after the run's end: how many samples, when they came, and for which run."""

_SAMPLES, _DIGESTS = "samples.parquet", "digests.json"
DIGEST_BYTES = 64
"""Of the digest at the end of a file, as hexadecimal digits."""
_GROUP_ROWS = 1 << 16
# What others give one may be made to fill memory: of a document, of what is read at once, and of a
# group of rows as its Parquet file says itself.
_MOST_DOCUMENT_BYTES = 64 << 20
_PIECE_BYTES = 1 << 20
_BATCH_ROWS = 1 << 12
_MOST_GROUP_BYTES = 1 << 30
_LOCAL_HEADER = struct.Struct("<26xHH")


class ArchiveError(MLBenchError):
    """A file is no archive, a damaged one, or one of a newer version."""


def file_name(run: str, run_id: int, suffix: str = SUFFIX) -> str:
    """Return the name of the file that has the archive of a run, or of what was added to it."""
    return f"{run}-{run_id}{suffix}"


def file_member(attempt: int, rank: int, name: str) -> str:
    """Return the name of the member that has a file which a rank left in its output folder."""
    return f"files/{attempt}/{rank}/{name}"


class More(NamedTuple):
    """What a sample has besides a time and a number."""

    text: str | None = None
    """Its value, if that is a text."""
    cumulative: bool | None = None
    metadata: Any = None


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive samples of a series, as columns of the same length."""

    times_us: "array[int]"
    values: "array[float]"
    """NaN for a text."""
    more: Mapping[int, More] = field(default_factory=dict)
    """By position."""
    kept: bool = False
    """Whether these are samples that Prometheus cannot hold."""


@dataclass(frozen=True)
class SeriesName:
    """What tells a series of an archive from the others."""

    metric: str
    rank: str = ""
    pod: str = ""
    """Whose resource use it is; empty for a series that the run has recorded."""

    def __str__(self) -> str:
        series = series_name(self.metric, self.rank)
        return f"{series} of {self.pod}" if self.pod else series


@dataclass(frozen=True)
class Sealed:
    """A series as it was sealed: in order of time, first what Prometheus holds, then the rest."""

    samples: int
    """Those that Prometheus holds."""
    kept: int
    sha256: str


class _Digest:
    """The SHA-256 of a series, whichever pieces it comes in."""

    def __init__(self) -> None:
        self._columns = [hashlib.sha256() for _ in range(3)]
        self.counts = {False: 0, True: 0}  # by whether they are kept

    def add(self, piece: Piece) -> None:
        times, values, more = self._columns
        times.update(piece.times_us.tobytes())
        values.update(piece.values.tobytes())
        for i, one in sorted(piece.more.items()):
            more.update(json.dumps([sum(self.counts.values()) + i, *one]).encode() + b"\n")
        self.counts[piece.kept] += len(piece.times_us)

    def sealed(self) -> Sealed:
        samples, kept = self.counts[False], self.counts[True]
        digests = b"".join(column.digest() for column in self._columns)
        whole = hashlib.sha256(f"{samples} {kept} ".encode() + digests)
        return Sealed(samples, kept, whole.hexdigest())


def digest_of(pieces: Iterable[Piece]) -> str:
    """Return the SHA-256 of samples, which is the same in whichever pieces they come."""
    digest = _Digest()
    for piece in pieces:
        digest.add(piece)
    return digest.sealed().sha256


def write(
    path: Path,
    documents: Mapping[str, Any],
    series: Iterable[tuple[SeriesName, Iterable[Piece]]],
    texts: Iterable[tuple[str, Iterable[bytes]]] = (),
) -> str:
    """Write an archive, and return its digest.

    ``documents`` become JSON, by the names of members; each series comes once, and is read as it is
    written; ``texts`` are other members, such as logs, and their pieces.
    """
    digests: dict[str, str] = {}
    with path.open("w+b") as file:
        with zipfile.ZipFile(file, "w") as archive:
            for name, value in documents.items():
                digests[name] = _add(archive, name, [json.dumps(value, indent=1).encode()])
            for name, pieces in texts:
                digests[name] = _add(archive, name, pieces)
            with archive.open(zipfile.ZipInfo(_SAMPLES), "w", force_zip64=True) as member:
                sealed = _write_samples(member, series)
            listed = [[*astuple(name), *astuple(seal)] for name, seal in sealed.items()]
            index = {"format": FORMAT, "members": digests, "series": listed}
            archive.writestr(zipfile.ZipInfo(_DIGESTS), json.dumps(index))
            archive.comment = b"0" * DIGEST_BYTES
        return put_digest(file)


def put_digest(file: BinaryIO) -> str:
    """Replace the comment at the end of a zip file by the SHA-256 of what comes before it."""
    digest = digest_before_comment(file)
    file.seek(-DIGEST_BYTES, io.SEEK_END)
    file.write(digest.encode())
    return digest


def _add(archive: zipfile.ZipFile, name: str, pieces: Iterable[bytes]) -> str:
    """Add a compressed member, and return the digest of its content."""
    info, digest = zipfile.ZipInfo(name), hashlib.sha256()
    info.compress_type = zipfile.ZIP_DEFLATED
    with archive.open(info, "w", force_zip64=True) as member:
        for piece in pieces:
            digest.update(piece)
            member.write(piece)
    return digest.hexdigest()


def digest_before_comment(file: BinaryIO) -> str:
    """Return the SHA-256 of a file without its last bytes, which are for the digest."""
    left = file.seek(0, io.SEEK_END) - DIGEST_BYTES
    file.seek(0)
    digest = hashlib.sha256()
    while left > 0 and (data := file.read(min(left, 1 << 20))):
        digest.update(data)
        left -= len(data)
    return digest.hexdigest()


def _write_samples(
    member: Any, series: Iterable[tuple[SeriesName, Iterable[Piece]]]
) -> dict[SeriesName, Sealed]:
    """Write all series into a Parquet file, in groups of rows that hold parts of any series."""
    pa, pq = pyarrow()
    sealed: dict[SeriesName, Sealed] = {}
    schema = pa.schema(
        [
            *((name, pa.string()) for name in ("pod", "metric", "rank")),
            ("time", pa.timestamp("us", "UTC")),
            ("value", pa.float64()),
            ("text", pa.string()),
            ("cumulative", pa.bool_()),
            ("metadata", pa.string()),
            ("kept", pa.bool_()),
        ]
    )
    with pq.ParquetWriter(
        pa.PythonFile(_Counting(member), "w"),
        schema,
        compression="zstd",
        use_dictionary=["pod", "metric", "rank", "text", "metadata"],
        column_encoding={"time": "DELTA_BINARY_PACKED", "value": "BYTE_STREAM_SPLIT"},
        write_page_checksum=True,
    ) as writer:
        held, rows = [], 0
        for name, pieces in series:
            digest = _Digest()
            for piece in pieces:
                digest.add(piece)
                held.append(_to_table(schema, name, piece))
                rows += len(piece.times_us)
                if rows >= _GROUP_ROWS:
                    writer.write_table(pa.concat_tables(held), row_group_size=2 * _GROUP_ROWS)
                    held, rows = [], 0
            sealed[name] = digest.sealed()
        if held:
            writer.write_table(pa.concat_tables(held))
    return sealed


def _to_table(schema: Any, name: SeriesName, piece: Piece) -> Any:
    pa, _ = pyarrow()
    length = len(piece.times_us)
    given: dict[str, list[Any]] = {"time": piece.times_us.tolist(), "value": list(piece.values)}
    if piece.more:
        more = [piece.more.get(i, More()) for i in range(length)]
        pairs = zip(piece.values, more, strict=True)
        given["value"] = [value if row.text is None else None for value, row in pairs]
        given["text"] = [row.text for row in more]
        given["cumulative"] = [row.cumulative for row in more]
        given["metadata"] = [_to_json(row.metadata) for row in more]
    same = {"pod": name.pod, "metric": name.metric, "rank": name.rank, "kept": piece.kept}
    return pa.table(
        [
            pa.array(given[column.name], column.type)
            if column.name in given
            else pa.repeat(pa.scalar(same.get(column.name), column.type), length)
            for column in schema
        ],
        schema,
    )


def _to_json(metadata: Any) -> str | None:
    return None if metadata is None else json.dumps(metadata)


@contextmanager
def opened(path: Path, name: str | None = None) -> Iterator["Archive"]:
    """Open an archive of this machine, which errors call by a name, or else by its path."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise ArchiveError(f"{path} cannot be read: {error.strerror}") from None
    with file:
        yield Archive(file, name or str(path))


class Archive:
    """An archive that is open for reading.

    Reading raises ``ArchiveError`` where the file is damaged; ``check`` tells what is. What
    zipfile and pyarrow raise then is any exception.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        try:
            self._zip = zipfile.ZipFile(file)
            index = json.loads(self._read_bounded(_DIGESTS))
            version = int(index["format"])
            if version <= FORMAT:
                self.series = {SeriesName(*one[:3]): Sealed(*one[3:]) for one in index["series"]}
                self.members: Mapping[str, str] = dict(index["members"])
                """Digests of the other members, by name."""
                self._check_members()
        except Exception as error:
            what = f"{name} is no archive of a run, or a damaged one"
            raise ArchiveError(f"{what}: {error}") from None
        if version > FORMAT:
            raise ArchiveError(
                f"{name} has format {version}, and this version of MLBench reads up to {FORMAT}: "
                "install a newer one"
            )
        self.digest = self._zip.comment.decode(errors="replace")
        """The SHA-256 of the file, as it says itself; ``check`` compares."""
        self._rows: dict[SeriesName, int] = {}
        row = 0
        for series, sealed in self.series.items():
            self._rows[series] = row
            row += sealed.samples + sealed.kept
        self._parquet: Any = None
        self._group: tuple[int, Any] = (-1, None)

    def document(self, name: str) -> Any:
        """Return a member that is JSON, such as ``RUN``."""
        try:
            return json.loads(self._read_bounded(name))
        except Exception as error:
            raise ArchiveError(f"{self._name}: {name} is damaged: {error}") from None

    def texts(self) -> list[str]:
        """Return the names of the other members, such as ``logs/1/0.stdout``."""
        return [name for name in self.members if name not in {RUN, ROWS, AUTOPSIES}]

    def text(self, name: str) -> bytes:
        """Return another member."""
        try:
            return self._zip.read(name)
        except Exception as error:
            raise ArchiveError(f"{self._name}: {name} is damaged: {error}") from None

    def read(self, name: SeriesName, *, kept: bool | None = None) -> Iterator[Piece]:
        """Yield the samples of a series; only those that are kept, or only the others, if asked."""
        sealed, first = self.series[name], self._rows[name]
        middle, last = first + sealed.samples, first + sealed.samples + sealed.kept
        if not kept:
            yield from self._read_rows(first, middle, kept=False)
        if kept is not False:
            yield from self._read_rows(middle, last, kept=True)

    def tables(self) -> dict[SeriesName, Any]:
        """Return the time, number and text of each sample that the run has recorded, by series.

        All at once, in Arrow's tables, whose memory it fills: for archives that one trusts.
        """
        with self._errors_of_samples():
            whole = self._open_samples().read(["time", "value", "text"])
        return {
            name: whole.slice(self._rows[name], sealed.samples + sealed.kept)
            for name, sealed in self.series.items()
            if not name.pod
        }

    def check(self) -> list[str]:
        """Compare all digests; return a sentence for each member that differs."""
        problems = [
            f"{name} does not match its digest" for name in self.members if self._differs(name)
        ]
        if series := [name for name in self.series if self._series_differs(name)]:
            of = f"{len(series)} of {len(self.series)} series, such as" if series[1:] else "series"
            problems.append(f"{_SAMPLES} does not match its digest ({of} {series[0]})")
        if not problems and digest_before_comment(self._file) != self.digest:
            problems.append("the file does not match its digest, outside of what was read from it")
        return [f"{self._name} is damaged: {problem}" for problem in problems]

    def _check_members(self) -> None:
        """Make sure that there is each member once, and nothing else; raise a ValueError if not."""
        found = self._zip.infolist()
        if sorted(one.filename for one in found) != sorted([*self.members, _DIGESTS, _SAMPLES]):
            raise ValueError("its members are not those that it lists")
        for one in found:
            if one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{one.filename} is compressed in another way")

    def _read_bounded(self, name: str) -> bytes:
        size = self._zip.getinfo(name).file_size
        if size > _MOST_DOCUMENT_BYTES:
            raise ValueError(f"{name} has {size:,} bytes")
        return self._zip.read(name)

    def _differs(self, name: str) -> bool:
        digest = hashlib.sha256()
        try:
            with self._zip.open(name) as member:
                while piece := member.read(_PIECE_BYTES):
                    digest.update(piece)
        except Exception:
            return True
        return digest.hexdigest() != self.members[name]

    def _series_differs(self, name: SeriesName) -> bool:
        try:
            return digest_of(self.read(name)) != self.series[name].sha256
        except Exception:
            return True

    def _read_rows(self, first: int, last: int, *, kept: bool) -> Iterator[Piece]:
        start = 0
        parquet = self._open_samples()
        for number in range(parquet.num_row_groups):
            end = start + parquet.metadata.row_group(number).num_rows
            low, high = max(first, start), min(last, end)
            if low < high:
                table = self._read_group(number).slice(low - start, high - low)
                for at in range(0, len(table), _BATCH_ROWS):
                    yield _to_piece(table.slice(at, _BATCH_ROWS), kept=kept)
            start = end

    def _read_group(self, number: int) -> Any:
        """Read a group of rows. Series are read one after the other, so the last one is held."""
        if self._group[0] != number:
            columns = ["time", "value", "text", "cumulative", "metadata"]
            with self._errors_of_samples():
                table = self._parquet.read_row_group(number, columns, use_threads=False)
                self._group = (number, table.select(columns))
        return self._group[1]

    def _open_samples(self) -> Any:
        if self._parquet is None:
            pa, pq = pyarrow()
            with self._errors_of_samples():
                info = self._zip.getinfo(_SAMPLES)
                self._file.seek(info.header_offset)
                name, extra = _LOCAL_HEADER.unpack(self._file.read(_LOCAL_HEADER.size))
                start = info.header_offset + _LOCAL_HEADER.size + name + extra
                parquet = pq.ParquetFile(
                    pa.PythonFile(_Part(self._file, start, info.file_size), "r"),
                    page_checksum_verification=True,
                    read_dictionary=["text", "metadata"],
                )
                self._check_rows(parquet.metadata)
                self._parquet = parquet
        return self._parquet

    def _check_rows(self, told: Any) -> None:
        """Make sure that no group of rows is larger than one is written; raise a ValueError."""
        listed = sum(one.samples + one.kept for one in self.series.values())
        if told.num_rows != listed:
            raise ValueError(f"it has {told.num_rows:,} rows, and {listed:,} are listed")
        for group in map(told.row_group, range(told.num_row_groups)):
            if group.num_rows > 2 * _GROUP_ROWS or group.total_byte_size > _MOST_GROUP_BYTES:
                size = f"{group.num_rows:,} rows has {group.total_byte_size:,} bytes"
                raise ValueError(f"a group of {size}")

    @contextmanager
    def _errors_of_samples(self) -> Iterator[None]:
        of_arrow = pyarrow()[0].ArrowException
        try:
            yield
        except (OSError, LookupError, ValueError, struct.error, of_arrow) as error:
            raise ArchiveError(f"{self._name}: {_SAMPLES} is damaged: {error}") from None


def _to_piece(table: Any, *, kept: bool) -> Piece:
    pa, _ = pyarrow()
    times = table["time"].cast(pa.int64()).to_pylist()
    values = [math.nan if value is None else value for value in table["value"].to_pylist()]
    more = {}
    if any(table[name].null_count < len(table) for name in More._fields):
        columns = [table[name].to_pylist() for name in More._fields]
        for i, (text, cumulative, metadata) in enumerate(zip(*columns, strict=True)):
            if text is not None or cumulative is not None or metadata is not None:
                more[i] = More(text, cumulative, metadata and json.loads(metadata))
    return Piece(array("q", times), array("d", values), more, kept)


class _Counting(io.RawIOBase):
    """A member of a zip file that knows how much was written, as pyarrow asks for that."""

    def __init__(self, member: Any) -> None:
        self._member, self._written = member, 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._member.write(data)
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        return self._written


class _Part(io.RawIOBase):
    """A part of a file, read as if it were a file of its own."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file, self._start, self._size, self._at = file, start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        self._file.seek(self._start + self._at)
        data = self._file.read(min(len(buffer), self._size - self._at))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def pyarrow() -> tuple[Any, Any]:
    """Import pyarrow and its part for Parquet, or say how to install it (ArchiveError)."""
    try:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise ArchiveError("archives need pyarrow: pip install 'mlbench-stack[report]'") from None
    return pa, pq
