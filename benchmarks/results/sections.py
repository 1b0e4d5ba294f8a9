"""The sections of the page of results: what is measured for each, and what it shows."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.results.sets import Bench


@dataclass(frozen=True)
class Published:
    """A time to a target that others have measured and published."""

    who: str
    """With the number of workers, and what they had."""
    target: float
    seconds: float


@dataclass(frozen=True)
class Section:
    """A section of the page."""

    key: str
    """In the names of its pictures."""
    title: str
    text: str
    """The question, in Markdown, without any measured figure."""
    sets: tuple[Bench, ...]
    report: tuple[str, ...]
    """Titles of the tables and plots of a report, or beginnings of such: shown of each set."""
    targets: tuple[float, ...] = ()
    """To which epochs and times are shown at the end, those of all sets together."""
    published: tuple[Published, ...] = ()
    """Published results that are shown next to the measured ones."""
    source: str = ""
    """A sentence that says where that was published, and in what it differs."""


_FILE = Path(__file__).with_name("sections.toml")
SECTIONS = msgspec.toml.decode(_FILE.read_bytes(), type=dict[str, tuple[Section, ...]])["sections"]
