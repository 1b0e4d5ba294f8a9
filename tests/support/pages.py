"""Scripts and commands from the integration pages, and their recorded values."""

import json
import os
import re
import sys
from datetime import datetime
from pathlib import Path

from mlbench import ApiClient
from mlbench.contract.records import Run
from mlbench.local.home import Home
from tests.support.processes import run_text

_ROOT = Path(__file__).parents[2]
_BLOCKS = re.compile(r"^```bash\n([^`]*)^```$", re.MULTILINE)
# The libraries are installed already. Tests need the run as JSON.
_SHELL = """
pip() { :; }
tensorboard() { :; }
mlbench() {
    if [ "$1" = run ]; then "$CLI" -P -m mlbench run $HOW --json "${@:2}"
    else "$CLI" -P -m mlbench "${@/RUN/${RUN-}}" >&2; fi
}
"""


def script_of(page: str) -> str:
    return (_ROOT / "examples" / page / "train.py").read_text()


def order_as_printed(
    client: ApiClient,
    stack: Home,
    page: str,
    folder: Path,
    *,
    before: str = "",
    detach: bool = True,
    venv: str = sys.executable,
    cli: str = sys.executable,
) -> Run:
    """Type the commands with which a page starts its script, and return the run.

    ``before`` is Python code to run before the script. With ``detach``, the function does not wait
    for the run to end. ``venv`` is the Python that stands for ``~/venv``, ``cli`` the Python of the
    user's command line.
    """
    (folder / "train.py").write_text(before + script_of(page))
    home = folder / "home"
    home.mkdir()
    (home / "venv").symlink_to(Path(venv).parents[1])
    variables = {"HOME": str(home), "CLI": cli, "HOW": "--detach" if detach else ""}
    ordered = json.loads(type_as_printed(stack, page, "train.py", folder, **variables))
    return client.get_run(ordered["id"]).result().value


def commands(page: str, word: str) -> str:
    """Return the block of commands that contains a word."""
    pages = [
        *_ROOT.glob(f"docs/integrations/{page}.md"),
        *_ROOT.glob(f"extensions/*/docs/{page}.md"),
    ]
    [text] = (path.read_text() for path in pages)
    blocks = _BLOCKS.findall(text)
    [matching] = (block for block in blocks if re.search(rf"\b{re.escape(word)}\b", block))
    return str(matching)


def type_as_printed(stack: Home, page: str, word: str, folder: Path, **variables: str) -> str:
    """Type the commands of a page that contain a word, in a folder; return their output."""
    typed = commands(page, word)
    process = run_text(
        ["bash", "-eu"],
        input=_SHELL + typed,
        cwd=folder,
        env={**os.environ, "MLBENCH_HOME": str(stack.root), "CLI": sys.executable, **variables},
    )
    assert process.returncode == 0, f"{typed}\n{process.stdout}\n{process.stderr}"
    return str(process.stdout)


def values(client: ApiClient, run: Run, metric: str, rank: int) -> list[tuple[int, float]]:
    """Return a rank's recorded values of a metric so far: times in Unix µs, and values."""
    series = client.get_run_metrics(run.id, metric_filter=metric).result().value
    return [
        (round(datetime.fromisoformat(point.date).timestamp() * 1e6), point.number)
        for point in series.get(f"{metric} @ {rank}", [])
    ]
