"""The ``sitecustomize`` that the agent adds to each Python process of a run."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from mlbench.contract import names
from mlbench_sources import mlbench_core
from mlbench_sources.http_receiver import HttpReceiver
from tests.support.processes import run_text

_HOOK = mlbench_core.HOOK / "sitecustomize.py"
_SHOW = "import json, sys; print(json.dumps([sys.path, sorted(sys.modules)]))"
_LIBRARY = {
    "__init__.py": "",
    "api.py": """
class ApiClient:
    def __init__(self): self.url = self.__get_in_cluster_url()
    def __get_in_cluster_url(self): raise SystemExit("no cluster")
""",
    "utils/__init__.py": "",
    "utils/log_metrics.py": """
from mlbench_core.api import ApiClient
class LogMetrics: in_cluster = False
""",
}
# A minimal transformers package with the parts that the hook changes.
_TRANSFORMERS = {
    "__init__.py": "",
    "training_args.py": """
from dataclasses import dataclass
@dataclass
class TrainingArguments:
    output_dir: str = "out"
    report_to: str = "none"
    seed: int = 42
""",
    "integrations/__init__.py": "",
    "integrations/integration_utils.py": """
TrainerCallback = type("TrainerCallback", (), {"__module__": "builtins"})
INTEGRATION_TO_CALLBACK = {}
""",
}
_TRAIN = """
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK
from transformers.training_args import TrainingArguments
arguments = TrainingArguments("mine")
assert (arguments.output_dir, arguments.seed) == ("mine", 42)
print(arguments.report_to, INTEGRATION_TO_CALLBACK["mlbench-by-default"])
"""
# Minimal PyTorch and JAX packages, each with a function that joins other processes.
_TORCH = {
    "__init__.py": "",
    "distributed/__init__.py": "from torch.distributed.distributed_c10d import *",
    "distributed/distributed_c10d.py": """
def _update_default_pg(group): pass
def init_process_group(): _update_default_pg("all")
""",
}
_JOIN = "from torch.distributed import init_process_group; init_process_group()"
_JAX = {
    "__init__.py": "import jax.distributed",
    "distributed.py": "from jax._src.distributed import initialize as initialize",
    "_src/__init__.py": "",
    "_src/distributed.py": "def initialize(processes): print(processes)",
}

Python = Callable[[str, Path], tuple[str, str]]


@pytest.fixture
def agent() -> Iterator[HttpReceiver]:
    server = HttpReceiver([], lambda lines: None, print)
    yield server
    server.close()


@pytest.fixture
def python(agent: HttpReceiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Python:
    """A function that runs code with the hook and returns its stdout and stderr."""
    # An earlier task in this process may have set it.
    monkeypatch.delenv(names.ENV_TIME_COMMUNICATION, raising=False)
    monkeypatch.setenv(names.ENV_METRICS_FILE, str(tmp_path / "metrics"))

    def run(code: str, folder: Path) -> tuple[str, str]:
        environ = {**os.environ, **mlbench_core.variables({"PYTHONPATH": str(folder)}, agent)}
        done = run_text([sys.executable, "-c", code], env=environ, check=True)
        return done.stdout, done.stderr

    return run


def library(folder: Path, **changed: str) -> Path:
    """Write a minimal mlbench_core package, with some files replaced."""
    return write(folder, "mlbench_core", _LIBRARY | changed)


def write(folder: Path, package: str, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_the_hook_is_invisible_to_other_code(python: Python, tmp_path: Path) -> None:
    with_it = json.loads(python(_SHOW, tmp_path)[0])
    plain = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", _SHOW], env=plain, capture_output=True, check=True)
    path, modules = json.loads(done.stdout)
    assert with_it[0] == path
    assert set(with_it[1]) - set(modules) <= {"sitecustomize"}


def test_the_users_own_sitecustomize_is_run(python: Python, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("mine = 7")
    assert python("import sitecustomize; print(sitecustomize.mine)", tmp_path) == ("7\n", "")


def test_mlbench_core_reports_to_the_agent(
    python: Python, agent: HttpReceiver, tmp_path: Path
) -> None:
    code = """
from mlbench_core.utils.log_metrics import LogMetrics
print(LogMetrics.in_cluster, LogMetrics.api.url)
"""
    address = f"mlbench:{agent.token}@{agent.url.removeprefix('http://')}"
    assert python(code, library(tmp_path)) == (f"True {address}\n", "")


def test_aliases_of_an_older_numpy_are_added_for_the_module_that_needs_them(
    python: Python, tmp_path: Path
) -> None:
    old = ("dataset/__init__.py", "dataset/nlp/__init__.py", "dataset/nlp/pytorch/__init__.py")
    uses = {"dataset/nlp/pytorch/wmt17_dataset.py": "import numpy as np; TYPE = np.float"}
    code = """
import numpy
from mlbench_core.dataset.nlp.pytorch.wmt17_dataset import TYPE
print(TYPE, hasattr(numpy, "float"))
"""
    folder = library(tmp_path, **dict.fromkeys(old, ""), **uses)
    assert python(code, folder) == ("<class 'float'> False\n", "")


_UNKNOWN = "MLBench cannot record what this version of {} reports: "


def test_an_unknown_version_of_mlbench_core_continues_with_one_warning(
    python: Python, tmp_path: Path
) -> None:
    changed = {"api.py": "class ApiClient: pass"}
    said, complaint = python("import mlbench_core.api; print(1)", library(tmp_path, **changed))
    assert (said, complaint.count("\n")) == ("1\n", 1)
    assert complaint.startswith(_UNKNOWN.format("mlbench-core"))


def test_an_unknown_version_of_transformers_continues_with_one_warning(
    python: Python, tmp_path: Path
) -> None:
    said, complaint = python(_TRAIN, write(tmp_path, "transformers", _TRANSFORMERS))
    assert said == "mlbench-by-default <class 'TrainerCallback'>\n"
    assert complaint.startswith(_UNKNOWN.format("transformers"))
    assert complaint.count("\n") == 1


def test_an_unknown_version_of_torch_continues_with_one_warning(
    python: Python, tmp_path: Path
) -> None:
    said, complaint = python(f"{_JOIN}; print(1)", write(tmp_path, "torch", _TORCH))
    assert (said, complaint.count("\n")) == ("1\n", 1)
    assert complaint.startswith("mlbench: communication is not timed: ")


def test_transformers_before_5_keeps_its_default_reports(python: Python, tmp_path: Path) -> None:
    arguments = _TRANSFORMERS["training_args.py"].replace('"none"', "None")
    write(tmp_path, "transformers", _TRANSFORMERS | {"training_args.py": arguments})
    said, _ = python(_TRAIN, tmp_path)
    assert said.startswith("None ")


def test_the_hook_has_the_syntax_of_python_3_6() -> None:
    ast.parse(_HOOK.read_text(), feature_version=(3, 6))


@pytest.mark.parametrize(
    ("package", "files", "code", "field"),
    [
        (
            "torch",
            _TORCH,
            f"import sys; sys.version_info = (3, 8); {_JOIN}; print(2)",
            "untimed_python_ranks",
        ),
        ("jax", _JAX, "import jax; jax.distributed.initialize(2)", "untimed_jax_ranks"),
    ],
)
def test_communication_that_cannot_be_timed_is_reported(
    python: Python, tmp_path: Path, package: str, files: Mapping[str, str], code: str, field: str
) -> None:
    assert python(code, write(tmp_path, package, files)) == ("2\n", "")
    [line] = map(json.loads, (tmp_path / "metrics").read_text().splitlines())
    assert line["not_recorded"] == {field: 1}
