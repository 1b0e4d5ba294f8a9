"""Write the dashboards' JSON: ``python -m grafana.build``; ``--check`` only compares it."""

import argparse
import sys
from pathlib import Path

from grafana.boards import compare, run, runs, stack, workers

BOARDS = (workers.BOARD, runs.BOARD, run.BOARD, compare.BOARD, stack.BOARD)
FOLDER = Path(__file__).parent / "dashboards"


def main() -> int:
    """Write ``grafana/dashboards/*.json``; with ``--check``, return 1 if a file differs."""
    parser = argparse.ArgumentParser(prog="python -m grafana.build", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a file is out of date"
    )
    texts = {f"{board.uid}.json": board.to_json() for board in BOARDS}
    if parser.parse_args().check:
        files = {file.name: file.read_text(encoding="utf-8") for file in FOLDER.glob("*.json")}
        stale = sorted(name for name in texts | files if texts.get(name) != files.get(name))
        for name in stale:
            sys.stderr.write(f"{FOLDER.name}/{name} is out of date. Run python -m grafana.build.\n")
        return 1 if stale else 0
    FOLDER.mkdir(exist_ok=True)
    for file in FOLDER.glob("*.json"):
        if file.name not in texts:
            file.unlink()
    for name, text in texts.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
