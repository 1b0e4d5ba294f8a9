"""Writing of archives, with digests of all their content."""

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any, BinaryIO

from mlbench.archive.archive_format import (
    DIGEST_BYTES,
    DIGESTS,
    FORMAT,
    GROUP_ROWS,
    SAMPLES,
    Digest,
    More,
    Piece,
    Sealed,
    SeriesName,
    digest_before_comment,
    pyarrow,
)


def write(
    path: Path,
    documents: Mapping[str, Any],
    series: Iterable[tuple[SeriesName, Iterable[Piece]]],
    texts: Iterable[tuple[str, Iterable[bytes]]] = (),
) -> str:
    """Write an archive, and return its digest.

    Args:
        path: path of the new archive.
        documents: contents of the JSON members, by name.
        series: each series once, with its pieces. They are consumed while they are written.
        texts: names and pieces of other members, such as logs.
    """
    digests: dict[str, str] = {}
    with path.open("w+b") as file:
        with zipfile.ZipFile(file, "w") as archive:
            for name, value in documents.items():
                digests[name] = _add(archive, name, [json.dumps(value, indent=1).encode()])
            for name, pieces in texts:
                digests[name] = _add(archive, name, pieces)
            with archive.open(zipfile.ZipInfo(SAMPLES), "w", force_zip64=True) as member:
                sealed = _write_samples(member, series)
            listed = [[*astuple(name), *astuple(seal)] for name, seal in sealed.items()]
            index = {"format": FORMAT, "members": digests, "series": listed}
            archive.writestr(zipfile.ZipInfo(DIGESTS), json.dumps(index))
            archive.comment = b"0" * DIGEST_BYTES
        return put_digest(file)


def put_digest(file: BinaryIO) -> str:
    """Replace the comment at the end of a zip file by the SHA-256 of all bytes before it."""
    digest = digest_before_comment(file)
    file.seek(-DIGEST_BYTES, io.SEEK_END)
    file.write(digest.encode())
    return digest


def _add(archive: zipfile.ZipFile, name: str, pieces: Iterable[bytes]) -> str:
    """Add a compressed member, and return the SHA-256 of its content."""
    info, digest = zipfile.ZipInfo(name), hashlib.sha256()
    info.compress_type = zipfile.ZIP_DEFLATED
    with archive.open(info, "w", force_zip64=True) as member:
        for piece in pieces:
            digest.update(piece)
            member.write(piece)
    return digest.hexdigest()


def _write_samples(
    member: Any, series: Iterable[tuple[SeriesName, Iterable[Piece]]]
) -> dict[SeriesName, Sealed]:
    """Write all series into a Parquet file. A row group may contain several series."""
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
        tables, rows = [], 0
        for name, pieces in series:
            digest = Digest()
            for piece in pieces:
                digest.add(piece)
                tables.append(_to_table(schema, name, piece))
                rows += len(piece.times_us)
                if rows >= GROUP_ROWS:
                    writer.write_table(pa.concat_tables(tables), row_group_size=2 * GROUP_ROWS)
                    tables, rows = [], 0
            sealed[name] = digest.sealed()
        if tables:
            writer.write_table(pa.concat_tables(tables))
    return sealed


def _to_table(schema: Any, name: SeriesName, piece: Piece) -> Any:
    pa, _ = pyarrow()
    length = len(piece.times_us)
    columns = {
        column: pa.Array.from_buffers(schema.field(column).type, length, [None, pa.py_buffer(data)])
        for column, data in (("time", piece.times_us), ("value", piece.values))
    }
    if piece.more:
        more = [piece.more.get(i, More()) for i in range(length)]
        columns["value"] = [
            value if row.text is None else None
            for value, row in zip(piece.values, more, strict=True)
        ]
        columns["text"] = [row.text for row in more]
        columns["cumulative"] = [row.cumulative for row in more]
        columns["metadata"] = [
            None if row.metadata is None else json.dumps(row.metadata) for row in more
        ]
    constants = {"pod": name.pod, "metric": name.metric, "rank": name.rank, "kept": piece.kept}
    return pa.table(
        [
            pa.array(columns[column.name], column.type)
            if column.name in columns
            else pa.repeat(pa.scalar(constants.get(column.name), column.type), length)
            for column in schema
        ],
        schema,
    )


class _Counting(io.RawIOBase):
    """A member of a zip file that counts the bytes written, because pyarrow needs its position."""

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
