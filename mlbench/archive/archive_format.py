"""Format of archives, shared by writer and reader: names, samples and digests."""

import hashlib
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from mlbench.contract.distribution import how_to_install
from mlbench.contract.errors import MLBenchError
from mlbench.contract.output import sha256_of_start
from mlbench.contract.series import series_name

if TYPE_CHECKING:
    from array import array

FORMAT = 1
SUFFIX = ".mlbench"
ADDED_SUFFIX = f".added{SUFFIX}"
ANNOTATIONS_SUFFIX = ".annotations.json"
"""Suffix of the file next to an archive with the user's annotations of its runs."""
RUN, ROWS, DIAGNOSES = "run.json", "rows.json", "autopsies.json"
"""Members with the API's description of the run, its database rows, and its hang diagnoses."""
ADDED = "added.json"
"""Member that describes late samples: their number, their arrival, and their run."""

SAMPLES, DIGESTS = "samples.parquet", "digests.json"
DIGEST_BYTES = 64
"""Length of the digest at the end of a file, in hexadecimal digits."""
GROUP_ROWS = 1 << 16
"""Minimum number of rows in a row group of the Parquet file, except for the last one."""


class ArchiveError(MLBenchError):
    """A file is not an archive, is damaged, or has the format of a newer version."""


def file_name(run: str, run_id: int, suffix: str = SUFFIX) -> str:
    """Return the file name of a run's archive, or of the archive of its late samples."""
    return f"{run}-{run_id}{suffix}"


def file_stem(name: str) -> str:
    """Return the part of a file name that stands for a name, such as a benchmark set's."""
    return re.sub(r"[^A-Za-z0-9-]", "-", name)[:40]


def file_member(attempt: int, rank: int, name: str) -> str:
    """Return the name of the member for a file from a rank's output folder."""
    return f"files/{attempt}/{rank}/{name}"


class More(NamedTuple):
    """The optional fields of a sample."""

    text: str | None = None
    """Value of a sample that is a text; None for a number."""
    cumulative: bool | None = None
    metadata: Any = None


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive samples of a series, as columns of the same length."""

    times_us: "array[int]"
    """Timestamps, in microseconds since 1970."""
    values: "array[float]"
    """Values; NaN for a text."""
    more: Mapping[int, More] = field(default_factory=dict)
    """Optional fields, by the position of their sample."""
    kept: bool = False
    """Whether Prometheus cannot store these samples."""


@dataclass(frozen=True)
class SeriesName:
    """The name of a series in an archive."""

    metric: str
    rank: str = ""
    """Rank of the series; empty for a series without a rank."""
    pod: str = ""
    """Pod of a series of resource usage; empty for a series that the run recorded."""

    def __str__(self) -> str:
        series = series_name(self.metric, self.rank)
        return f"{series} of {self.pod}" if self.pod else series


@dataclass(frozen=True)
class Sealed:
    """The digest of a series: samples that Prometheus stores in order of time, then the others."""

    samples: int
    """Number of samples that Prometheus stores."""
    kept: int
    """Number of samples that Prometheus cannot store."""
    sha256: str
    """SHA-256 of all samples, in hexadecimal."""


class Digest:
    """The SHA-256 of a series, which does not depend on the sizes of its pieces."""

    def __init__(self) -> None:
        self._columns = [hashlib.sha256() for _ in range(3)]
        self.counts = {False: 0, True: 0}
        """Number of samples so far, by ``Piece.kept``."""

    def add(self, piece: Piece) -> None:
        """Add the next samples."""
        times, values, more = self._columns
        times.update(piece.times_us.tobytes())
        values.update(piece.values.tobytes())
        for i, fields in sorted(piece.more.items()):
            more.update(json.dumps([sum(self.counts.values()) + i, *fields]).encode() + b"\n")
        self.counts[piece.kept] += len(piece.times_us)

    def sealed(self) -> Sealed:
        """Return the number of samples and their digest."""
        samples, kept = self.counts[False], self.counts[True]
        digests = b"".join(column.digest() for column in self._columns)
        digest = hashlib.sha256(f"{samples} {kept} ".encode() + digests)
        return Sealed(samples, kept, digest.hexdigest())


def digest_before_comment(file: BinaryIO) -> str:
    """Return the SHA-256 of a file without its last bytes, which hold the digest itself."""
    return sha256_of_start(file, file.seek(0, io.SEEK_END) - DIGEST_BYTES)


def pyarrow() -> tuple[Any, Any]:
    """Import pyarrow and its Parquet module. Raises ArchiveError with how to install them."""
    try:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise ArchiveError(f"archives need pyarrow: {how_to_install('report')}") from None
    return pa, pq
