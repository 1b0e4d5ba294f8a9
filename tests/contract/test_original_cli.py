"""The original MLBench command line, unmodified, in a terminal of 80 columns."""

import ast
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.client import MLBENCH_BACKENDS, MLBENCH_IMAGES
from mlbench.local.home import Home
from tests.conftest import running_stack, wait_for
from tests.mlbench.cli.conftest import Mlbench
from tests.support.stacks import reload, run_to_end

pytestmark = pytest.mark.slow

_CUSTOM_IMAGE, _MPI, _GLOO = str(len(MLBENCH_IMAGES)), "0", "1"
_TRAINING = f"{sys.executable} -m mlbench_worker.tasks.digits_linear --epochs 2 --goal 99.9"
_ENDLESS = f"{sys.executable} -m mlbench_worker.tasks.steps --steps 100000"


@dataclass(frozen=True)
class CommandLine:
    """The original program on an 80-column terminal, with the master's address and token."""

    program: Mlbench
    url: str

    def __call__(self, *arguments: str, answers: tuple[str, ...] = ()) -> list[str]:
        """Run a command, answer its prompts, and return its output lines without the prompts."""
        with self.program.on_terminal(*arguments, "--dashboard-url", self.url) as terminal:
            terminal.type(*answers)
            code = terminal.wait()
        assert code == 0, terminal.text
        return [line.rpartition("]: ")[2] for line in terminal.text.splitlines()]

    def order(self, name: str, *numbers: int, command: str, backend: str = _GLOO) -> list[str]:
        """Submit one run per number of workers; return the output line of each run."""
        answers = (_CUSTOM_IMAGE, "local", command, backend)
        # The client requests one CPU fewer than --num-cpus.
        lines = self("run", "--num-cpus", "2", name, *map(str, numbers), answers=answers)
        return lines[-len(numbers) :]


@pytest.fixture(scope="module")
def queueing(prometheus_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A stack that queues all runs, even if the request does not ask for it."""
    root = tmp_path_factory.mktemp("queueing")
    with running_stack(prometheus_binary, root, MLBENCH_QUEUE="always") as home:
        yield home


@pytest.fixture
def cli(
    original_python: str, queueing: Home, prometheus_binary: Path, tmp_path: Path
) -> CommandLine:
    connection = queueing.read_connection()
    program = (str(Path(original_python).with_name("mlbench")),)
    # Simulate an installation without PyTorch, because importing it takes most of the time.
    (tmp_path / "torch.py").write_text("raise ImportError")
    environ = {"HOME": str(tmp_path), "PYTHONPATH": str(tmp_path), "MPLBACKEND": "agg"}
    return CommandLine(
        Mlbench(queueing, prometheus_binary, program, tmp_path, environ),
        f"user:{connection.token}@{connection.url.partition('//')[2]}",
    )


def test_runs_are_submitted_listed_plotted_downloaded_and_deleted(
    cli: CommandLine, queueing: Home, tmp_path: Path
) -> None:
    [refused] = cli.order("No MPI", 1, command=_TRAINING, backend=_MPI)
    assert refused.startswith(
        "Couldn't start run: backend: PyTorch supports gloo, nccl here (got mpi)"
    )
    lines = cli.order("Scaling, 1", 1, 2, command=_TRAINING)
    assert lines == [f"Run started with name Scaling, 1-{number}" for number in (1, 2)]
    lines = cli.order("Endless", 1, command=_ENDLESS)
    assert lines == ["Run started with name Endless-1"]

    with ApiClient.from_home(queueing) as client:
        runs = {run.title: run for run in client.get_runs().result().value}
        ended = [run_to_end(client, runs[f"Scaling, 1-{number}"]) for number in (1, 2)]
        assert [(run.state, run.reason) for run in ended] == [("FINISHED", "")] * 2
        endless = runs["Endless-1"]
        wait_for(
            lambda: reload(client, endless).state == "STARTED", what="the last run has started"
        )
        heading, line, *rows = cli("status")
        assert heading.split() == ["id", "name", "created_at", "state", "num_workers"]
        assert max(map(len, (heading, line, *rows))) <= 80
        cells = [re.split(" {2,}", row.strip()) for row in rows]
        assert {(name, state, workers) for _, name, _, state, workers in cells} == {
            ("Scaling, 1-1", "finished", "1"),
            ("Scaling, 1-2", "finished", "2"),
            ("Endless-1", "started", "1"),
        }
        *_, loss, precision = cli("status", "Scaling, 1-2")
        assert loss.startswith("Current Global Loss: ")
        assert precision.startswith("Current Global Precision: ")

        assert cli("charts", "drawn", answers=("all",))[-1] == "Summary created in drawn"
        drawn = {path.name for path in (tmp_path / "drawn").iterdir()}
        assert drawn == {"total_time.png", "speedup.png", "time_for_all_phases.png"}
        assert cli("download", "Scaling, 1-1", "--output", "one.zip") == []
        with zipfile.ZipFile(tmp_path / "one.zip") as archive:
            assert "result_global_cum_fwd_pass @ 0.json" in archive.namelist()

        # The first run is active, the second one has finished.
        for name in ("Endless-1", "Scaling, 1-1"):
            assert cli("delete", name) == []
        wait_for(lambda: _names(client) == ["Scaling, 1-2"], what="the active run is deleted")
        wait_for(lambda: _are_idle(client), what="the worker is idle")


def _names(client: ApiClient) -> list[str]:
    return [run.title for run in client.get_runs().result().value]


def _are_idle(client: ApiClient) -> bool:
    return all(pod.state != "running" for pod in client.get_worker_pods().result().value)


def test_benchmark_and_backend_names_match_the_original_client(original_python: str) -> None:
    imports = "from mlbench_core.api import MLBENCH_BACKENDS as b, MLBENCH_IMAGES as i"
    output = subprocess.check_output([original_python, "-c", f"{imports}; print([b, i])"])
    assert ast.literal_eval(output.decode()) == [MLBENCH_BACKENDS, MLBENCH_IMAGES]
