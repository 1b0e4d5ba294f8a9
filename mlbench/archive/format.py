"""The parts of an archive that its writer and its reader know: names, samples and digests."""

import hashlib
import io
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from mlbench.contract.distribution import how_to_install
from mlbench.contract.errors import MLBenchError
from mlbench.contract.series import series_name

if TYPE_CHECKING:
    from array import array

FORMAT = 1
SUFFIX = ".mlbench"
ADDED_SUFFIX = f".added{SUFFIX}"
WORDS_SUFFIX = ".words"  # of the file beside one, with what the user says of its runs
RUN, ROWS, AUTOPSIES = "run.json", "rows.json", "autopsies.json"
"""What the API answers of the run, and the rows of the database that this is made from."""
ADDED = "added.json"
"""Of what was posted after the run's end: how many samples, when they came, and for which run."""

SAMPLES, DIGESTS = "samples.parquet", "digests.json"
DIGEST_BYTES = 64
"""Of the digest at the end of a file, as hexadecimal digits."""
GROUP_ROWS = 1 << 16
_LONGEST_STEM = 40


class ArchiveError(MLBenchError):
    """A file is no archive, a damaged one, or one of a newer version."""


def file_name(run: str, run_id: int, suffix: str = SUFFIX) -> str:
    """Return the name of the file that has the archive of a run, or of what was added to it."""
    return f"{run}-{run_id}{suffix}"


def file_stem(name: str) -> str:
    """Return any name, such as that of a set, as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9-]", "-", name)[:_LONGEST_STEM]


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


class Digest:
    """The SHA-256 of a series, whichever pieces it comes in."""

    def __init__(self) -> None:
        self._columns = [hashlib.sha256() for _ in range(3)]
        self.counts = {False: 0, True: 0}  # by whether they are kept

    def add(self, piece: Piece) -> None:
        """Take the next samples."""
        times, values, more = self._columns
        times.update(piece.times_us.tobytes())
        values.update(piece.values.tobytes())
        for i, one in sorted(piece.more.items()):
            more.update(json.dumps([sum(self.counts.values()) + i, *one]).encode() + b"\n")
        self.counts[piece.kept] += len(piece.times_us)

    def sealed(self) -> Sealed:
        """Return how many there were, and their digest."""
        samples, kept = self.counts[False], self.counts[True]
        digests = b"".join(column.digest() for column in self._columns)
        whole = hashlib.sha256(f"{samples} {kept} ".encode() + digests)
        return Sealed(samples, kept, whole.hexdigest())


def digest_of(pieces: Iterable[Piece]) -> str:
    """Return the SHA-256 of samples, which is the same in whichever pieces they come."""
    digest = Digest()
    for piece in pieces:
        digest.add(piece)
    return digest.sealed().sha256


def digest_before_comment(file: BinaryIO) -> str:
    """Return the SHA-256 of a file without its last bytes, which are for the digest."""
    left = file.seek(0, io.SEEK_END) - DIGEST_BYTES
    file.seek(0)
    digest = hashlib.sha256()
    while left > 0 and (data := file.read(min(left, 1 << 20))):
        digest.update(data)
        left -= len(data)
    return digest.hexdigest()


def pyarrow() -> tuple[Any, Any]:
    """Import pyarrow and its part for Parquet, or say how to install it (ArchiveError)."""
    try:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise ArchiveError(f"archives need pyarrow: {how_to_install('report')}") from None
    return pa, pq
