"""The scripts and commands that the pages in docs/integrations show, and what was recorded."""

import json
import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path

from mlbench import ApiClient
from mlbench.home import Home
from mlbench.records import Run

_ROOT = Path(__file__).parents[2]
_COMMANDS = re.compile(r"^```bash\n([^`]*\btrain\.py\b[^`]*)^```$", re.MULTILINE)
# The libraries are installed already, and tests look at a run while it goes on.
_SHELL = """
pip() { :; }
mlbench() { if [ "$1" = run ]; then "$CLI" -P -m mlbench run --detach --json "${@:2}"; fi; }
"""


def script_of(page: str) -> str:
    """Return the script that a page shows."""
    return (_ROOT / "examples" / page / "train.py").read_text()


def order_as_printed(
    client: ApiClient,
    stack: Home,
    page: str,
    folder: Path,
    *,
    venv: str = sys.executable,
    cli: str = sys.executable,
) -> Run:
    """Type the commands by which a page starts its script, and return the run.

    ``venv`` is the Python of ``~/venv``, ``cli`` that of the user's command line.
    """
    (folder / "train.py").write_text(script_of(page))
    [commands] = _COMMANDS.findall((_ROOT / "docs/integrations" / f"{page}.md").read_text())
    home = folder / "home"
    home.mkdir()
    (home / "venv").symlink_to(Path(venv).parents[1])
    done = subprocess.run(
        ["bash", "-eu"],
        input=_SHELL + commands,
        cwd=folder,
        env={**os.environ, "HOME": str(home), "MLBENCH_HOME": str(stack.root), "CLI": cli},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
    return client.get_run(json.loads(done.stdout)["id"]).result().value


def values(client: ApiClient, run: Run, metric: str, rank: int) -> list[tuple[int, float]]:
    """Return what can be read of a rank's metric so far: times in Unix µs, and values."""
    series = client.get_run_metrics(run.id, metric_filter=metric).result().value
    return [
        (round(datetime.fromisoformat(point.date).timestamp() * 1e6), point.number)
        for point in series.get(f"{metric} @ {rank}", [])
    ]
