"""Reading of archives, with limits on their sizes, and verification of their digests."""

import hashlib
import io
import json
import math
import struct
import zipfile
from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from mlbench.archive.archive_format import (
    DIAGNOSES,
    DIGESTS,
    FORMAT,
    GROUP_ROWS,
    ROWS,
    RUN,
    SAMPLES,
    ArchiveError,
    Digest,
    More,
    Piece,
    Sealed,
    SeriesName,
    digest_before_comment,
    pyarrow,
)
from mlbench.archive.former_names import with_current_names

# An archive from elsewhere may be made to exhaust memory. These limits are for a JSON document, for
# a row group as the Parquet file describes it, and for all samples as Arrow tables (about 200
# million samples).
_MAX_DOCUMENT_BYTES = 64 << 20
_MAX_GROUP_BYTES = 1 << 30
_MAX_TABLE_BYTES = 4 << 30


def read_bounded(file: zipfile.ZipFile, name: str, most: int = _MAX_DOCUMENT_BYTES) -> bytes:
    """Return a member of a zip file; raise a ValueError if it has more bytes than ``most``."""
    size = file.getinfo(name).file_size
    if size > most:
        raise ValueError(f"{name}: must have at most {most:,} bytes (got {size:,})")
    return file.read(name)


@contextmanager
def opened(path: Path, name: str | None = None) -> Iterator["Archive"]:
    """Open an archive. Error messages contain ``name``, or else its path."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise ArchiveError(f"{path} cannot be read: {error.strerror}") from None
    with file:
        yield Archive(file, name or str(path))


class Archive:
    """An archive that is open for reading.

    Reading raises ``ArchiveError`` if the file is damaged; ``check`` lists the damaged members.
    zipfile and pyarrow raise exceptions of many kinds for damaged files, so all are caught.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        try:
            self._zip = zipfile.ZipFile(file)
            index = json.loads(read_bounded(self._zip, DIGESTS))
            version = int(index["format"])
            if version <= FORMAT:
                self.series = {SeriesName(*row[:3]): Sealed(*row[3:]) for row in index["series"]}
                self.members: Mapping[str, str] = dict(index["members"])
                """SHA-256 of each other member, by name."""
                members = self._zip.infolist()
                listed = sorted([*self.members, DIGESTS, SAMPLES])
                if sorted(info.filename for info in members) != listed:
                    raise ValueError("its members are not those that it lists")
                for info in members:
                    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                        raise ValueError(f"{info.filename} is compressed in another way")
        except Exception as error:
            problem = f"{name} is no archive of a run, or a damaged one"
            raise ArchiveError(f"{problem}: {error}") from None
        if version > FORMAT:
            raise ArchiveError(
                f"{name} has format {version}, and this version of MLBench reads up to {FORMAT}: "
                "install a newer one"
            )
        self.digest = self._zip.comment.decode(errors="replace")
        """SHA-256 that the file contains of itself; ``check`` verifies it."""
        self._rows: dict[SeriesName, int] = {}
        row = 0
        for series, sealed in self.series.items():
            self._rows[series] = row
            row += sealed.samples + sealed.kept
        self._parquet: Any = None
        self._group: tuple[int, Any] = (-1, None)

    def document(self, name: str) -> Any:
        """Return the content of a JSON member, such as ``RUN``, with this version's field names."""
        try:
            return with_current_names(json.loads(read_bounded(self._zip, name)))
        except Exception as error:
            raise ArchiveError(f"{self._name}: {name} is damaged: {error}") from None

    def texts(self) -> list[str]:
        """Return the names of the other members, such as ``logs/1/0.stdout``."""
        return [name for name in self.members if name not in {RUN, ROWS, DIAGNOSES}]

    def text(self, name: str) -> bytes:
        """Return the content of a text file in the archive; ``texts`` lists their names."""
        try:
            return self._zip.read(name)
        except Exception as error:
            raise ArchiveError(f"{self._name}: {name} is damaged: {error}") from None

    def read(self, name: SeriesName, *, kept: bool | None = None) -> Iterator[Piece]:
        """Yield the samples of a series: all, or only those whose ``Piece.kept`` is ``kept``."""
        sealed, first = self.series[name], self._rows[name]
        middle, last = first + sealed.samples, first + sealed.samples + sealed.kept
        if not kept:
            yield from self._read_rows(first, middle, kept=False)
        if kept is not False:
            yield from self._read_rows(middle, last, kept=True)

    def tables(self) -> dict[SeriesName, Any]:
        """Return the time, number and text of each sample that the run recorded, by series.

        The Arrow tables hold all samples at once, in at most 4 GiB. Digests are not verified here:
        ``mlbench.evaluation.sandbox`` does that in bounded memory.
        """
        columns, pieces, size = ["time", "value", "text"], [], 0
        pa, _ = pyarrow()
        with self._errors_of_samples():
            parquet = self._open_samples()
            for number in range(parquet.num_row_groups):
                pieces.append(parquet.read_row_group(number, columns))
                size += pieces[-1].nbytes
                if size > _MAX_TABLE_BYTES:
                    raise ValueError(f"its samples take more than {_MAX_TABLE_BYTES:,} bytes")
            empty = parquet.schema_arrow.empty_table().select(columns)
            whole = pa.concat_tables(pieces or [empty])
        return {
            name: whole.slice(self._rows[name], sealed.samples + sealed.kept)
            for name, sealed in self.series.items()
            if not name.pod
        }

    def check(self) -> list[str]:
        """Verify all digests, and return a sentence for each member that differs."""
        problems = [
            f"{name} does not match its digest"
            for name, sha256 in self.members.items()
            if self._digest(name) != sha256
        ]
        damaged = [n for n, sealed in self.series.items() if self._digest(n) != sealed.sha256]
        if damaged:
            subject = "series"
            if len(damaged) > 1:
                subject = f"{len(damaged)} of {len(self.series)} series, such as"
            problems.append(f"{SAMPLES} does not match its digest ({subject} {damaged[0]})")
        if not problems and digest_before_comment(self._file) != self.digest:
            problems.append("the file does not match its digest, outside of what was read from it")
        return [f"{self._name} is damaged: {problem}" for problem in problems]

    def _digest(self, name: str | SeriesName) -> str:
        """Return the SHA-256 of a member or of a series; empty if it cannot be read."""
        try:
            if isinstance(name, SeriesName):
                samples = Digest()
                for samples_piece in self.read(name):
                    samples.add(samples_piece)
                return samples.sealed().sha256
            digest = hashlib.sha256()
            with self._zip.open(name) as member:
                while piece := member.read(1 << 20):
                    digest.update(piece)
            return digest.hexdigest()
        except Exception:
            return ""

    def _read_rows(self, first: int, last: int, *, kept: bool) -> Iterator[Piece]:
        start = 0
        parquet = self._open_samples()
        for number in range(parquet.num_row_groups):
            end = start + parquet.metadata.row_group(number).num_rows
            low, high = max(first, start), min(last, end)
            if low < high:
                # The last group is cached, because series are read one after another.
                if self._group[0] != number:
                    columns = ["time", "value", "text", "cumulative", "metadata"]
                    with self._errors_of_samples():
                        group = parquet.read_row_group(number, columns, use_threads=False)
                        self._group = (number, group.select(columns))
                table = self._group[1].slice(low - start, high - low)
                for at in range(0, len(table), 1 << 12):
                    yield _to_piece(table.slice(at, 1 << 12), kept=kept)
            start = end

    def _open_samples(self) -> Any:
        if self._parquet is None:
            pa, pq = pyarrow()
            with self._errors_of_samples():
                info = self._zip.getinfo(SAMPLES)
                self._file.seek(info.header_offset)
                # The local header ends with the lengths of the name and of the extra field.
                header = struct.Struct("<26xHH")
                name, extra = header.unpack(self._file.read(header.size))
                start = info.header_offset + header.size + name + extra
                parquet = pq.ParquetFile(
                    pa.PythonFile(_Part(self._file, start, info.file_size), "r"),
                    page_checksum_verification=True,
                    read_dictionary=["text", "metadata"],
                )
                metadata = parquet.metadata
                listed = sum(sealed.samples + sealed.kept for sealed in self.series.values())
                if metadata.num_rows != listed:
                    raise ValueError(
                        f"it has {metadata.num_rows:,} rows, and {listed:,} are listed"
                    )
                # MLBench writes smaller groups.
                for group in map(metadata.row_group, range(metadata.num_row_groups)):
                    rows, size = group.num_rows, group.total_byte_size
                    if rows > 2 * GROUP_ROWS or size > _MAX_GROUP_BYTES:
                        raise ValueError(f"a group of {rows:,} rows has {size:,} bytes")
                self._parquet = parquet
        return self._parquet

    @contextmanager
    def _errors_of_samples(self) -> Iterator[None]:
        pa, _ = pyarrow()
        try:
            yield
        except (OSError, LookupError, ValueError, struct.error, pa.ArrowException) as error:
            raise ArchiveError(f"{self._name}: {SAMPLES} is damaged: {error}") from None


def _to_piece(table: Any, *, kept: bool) -> Piece:
    pa, _ = pyarrow()
    times, values = array("q"), array("d")
    for chunk in table["time"].cast(pa.int64()).chunks:
        times.frombytes(_bytes_of(chunk))
    for chunk in table["value"].fill_null(math.nan).chunks:
        values.frombytes(_bytes_of(chunk))
    more = {}
    if any(table[name].null_count < len(table) for name in More._fields):
        columns = [table[name].to_pylist() for name in More._fields]
        for i, (text, cumulative, metadata) in enumerate(zip(*columns, strict=True)):
            if text is not None or cumulative is not None or metadata is not None:
                more[i] = More(text, cumulative, metadata and json.loads(metadata))
    return Piece(times, values, more, kept)


def _bytes_of(chunk: Any) -> memoryview:
    """Return the bytes of an Arrow array of 64-bit numbers without nulls."""
    if chunk.null_count:
        raise ValueError("a sample has no time")
    return memoryview(chunk.buffers()[1])[8 * chunk.offset : 8 * (chunk.offset + len(chunk))]


class _Part(io.RawIOBase):
    """A part of a file, as a file."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file, self._start, self._size, self._position = file, start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origins = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}
        self._position = origins[whence] + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        self._file.seek(self._start + self._position)
        data = self._file.read(min(len(buffer), self._size - self._position))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
