"""``python -m benchmarks.results``: list the sections of the page, measure them, write the page."""

import argparse
import zipfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.results import page
from benchmarks.results.measuring import measure
from benchmarks.results.sections import SECTIONS, Section
from mlbench import bundle
from mlbench.archive import ArchiveError
from mlbench.report.figures import whole_seconds

_ROOT = Path(__file__).parents[2]
_KEYS = [section.key for section in SECTIONS]


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.results", description=__doc__)
    parser.add_argument(
        "--archives",
        type=Path,
        default=_ROOT / "docs" / "archives",
        metavar="FOLDER",
        help="where the archives of the sets lie; docs/archives by default, which is published",
    )
    commands = parser.add_subparsers(dest="command", metavar="list|measure|page")
    commands.add_parser("list", help="say what there is, and what lacks archives (the default)")
    measuring = commands.add_parser(
        "measure", help="run sections on the stack that runs here, by `mlbench bench`"
    )
    measuring.add_argument(
        "sections",
        nargs="*",
        metavar="SECTION",
        choices=[[], *_KEYS],
        help=f"of {', '.join(_KEYS)}; by default what lacks archives",
    )
    commands.add_parser("page", help="write docs/results.md and its pictures")
    arguments = parser.parse_args()
    match arguments.command:
        case "measure":
            _measure(arguments.sections, arguments.archives)
        case "page":
            _list(SECTIONS, arguments.archives)
            try:
                page.write(SECTIONS, arguments.archives, _ROOT / "docs")
            except ArchiveError as error:
                parser.exit(1, f"{error}\n")
        case _:
            _list(SECTIONS, arguments.archives)


def _list(sections: Sequence[Section], archives: Path) -> None:
    for section in sections:
        print(f"{section.key:<18} {whole_seconds(section.minutes * 60):>12}")
        for bench in section.sets:
            file = bench.file(archives)
            print(f"  {bench.name}: {_state(file) if file.exists() else 'no archives'}")


def _state(file: Path) -> str:
    """Say what became of the set of a file."""
    try:
        found = bundle.read_set(file)
        return found.text if found else "it is of no set"
    except (ArchiveError, OSError, TypeError, zipfile.BadZipFile):
        return f"{file} is no export of a set"


def _measure(keys: Sequence[str], archives: Path) -> None:
    wanted = [
        bench
        for section in SECTIONS
        for bench in section.sets
        if section.key in keys or (not keys and not bench.file(archives).exists())
    ]
    incomplete = []
    for i, bench in enumerate(wanted):
        left = whole_seconds(sum(one.minutes for one in wanted[i:]) * 60)
        print(f"{bench.command}\n(set {i + 1} of {len(wanted)}, about {left} left)", flush=True)
        if not measure(bench, archives):
            incomplete.append(bench.name)
    if incomplete:
        raise SystemExit(f"not complete, the same command goes on: {', '.join(incomplete)}")


if __name__ == "__main__":
    main()
