"""The published benchmark sets, read from the archives of their runs."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from mlbench.archive import SUFFIX, ArchiveError, bundle
from mlbench.contract.comparisons import Comparison
from mlbench.evaluation.verification import compare_files


@dataclass(frozen=True)
class Bench:
    """A benchmark set to measure."""

    name: str
    arguments: str
    """Arguments of ``mlbench bench`` without the name."""
    text: str
    """What is measured, in Markdown."""
    picture: str = ""
    """Beginning of the title of the picture that the page shows; "" for none."""

    def file(self, folder: Path) -> Path:
        """Return the file of its archives."""
        return folder / f"{self.name}{SUFFIX}"


_FILE = Path(__file__).with_name("sets.toml")
SETS = msgspec.toml.decode(_FILE.read_bytes(), type=dict[str, tuple[Bench, ...]])["sets"]


def read(bench: Bench, file: Path) -> Comparison:
    """Return the comparison of the runs that count, after checking all digests.

    Raises:
        ArchiveError: the file cannot be read, is damaged, or has another set or none.
    """
    run_set = bundle.read_set(file)
    if run_set is None or run_set.name != bench.name:
        raise ArchiveError(f"{file}: not an export of the set {bench.name}")
    return compare_files([file])[0]
