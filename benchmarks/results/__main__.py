"""``python -m benchmarks.results``: list the sections of the page, measure them, write the page."""

import argparse
import zipfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.results import page
from benchmarks.results.sections import SECTIONS
from mlbench import bundle
from mlbench.archive import ArchiveError
from mlbench.report.figures import whole_seconds

_ROOT = Path(__file__).parents[2]


def main() -> None:
    """Do what the command line says."""
    keys = [section.key for section in SECTIONS]
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
        choices=[[], *keys],
        help=f"of {', '.join(keys)}; by default what lacks archives",
    )
    commands.add_parser("page", help="write docs/results.md and its pictures")
    arguments = parser.parse_args()
    if arguments.command == "measure":
        _measure(arguments.sections, arguments.archives)
        return
    _list(arguments.archives)
    if arguments.command == "page":
        try:
            page.write(SECTIONS, arguments.archives, _ROOT / "docs")
        except ArchiveError as error:
            parser.exit(1, f"{error}\n")


def _list(archives: Path) -> None:
    for section in SECTIONS:
        minutes = sum(bench.minutes for bench in section.sets)
        print(f"{section.key:<18} {whole_seconds(minutes * 60):>12}")
        for bench in section.sets:
            print(f"  {bench.name}: {_state(bench.file(archives))}")


def _state(file: Path) -> str:
    """Say what became of the set of a file."""
    if not file.exists():
        return "no archives"
    try:
        run_set = bundle.read_set(file)
        return run_set.text if run_set else "it is of no set"
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
        left = whole_seconds(sum(each.minutes for each in wanted[i:]) * 60)
        print(f"{bench.command}\n(set {i + 1} of {len(wanted)}, about {left} left)", flush=True)
        if not bench.measure(archives):
            incomplete.append(bench.name)
    if incomplete:
        raise SystemExit(f"not complete, the same command goes on: {', '.join(incomplete)}")


if __name__ == "__main__":
    main()
