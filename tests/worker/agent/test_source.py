"""Which file a command runs."""

from pathlib import Path

import pytest

import worker.tasks.steps
from worker.agent.source import find_source


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("train.py", "train.sh", "data.csv", "own/__init__.py", "own/__main__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link.py").symlink_to(tmp_path / "train.py")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "source"),
    [
        ("python train.py --data data.csv", "train.py"),
        ("/usr/bin/python3.11 -u -X importtime -Wignore -OO train.py", "train.py"),
        ("python link.py", "train.py"),
        ("python -m train --data data.csv", "train.py"),
        ("python -um train", "train.py"),
        ("python -mtrain", "train.py"),
        ("python -m own", "own/__main__.py"),
        ("python -m own.other", None),
        ("python -m own.__main__", "own/__main__.py"),
        ("python -m no_such_module", None),
        ("python -c train.py", None),
        ("python", None),
        ("python -m", None),
        ("python -", None),
        ("python gone.py data.csv", None),
        # What only starts the code of somebody else.
        ("python -m pytest train.py", "train.py"),
        ("python -m cProfile train.py", "train.py"),
        ("torchrun --nproc-per-node 2 train.py data.csv", "train.py"),
        ("bash train.sh", "train.sh"),
        ("./train.sh data.csv", "train.sh"),
        ("./gone.sh data.csv", None),
        ("true", None),
        ("sh -c x\0y", None),
        (f"echo {'x' * 5000}", None),
    ],
)
def test_the_file(folder: Path, command: str, source: str | None) -> None:
    found = find_source(command.split(" "), folder)
    assert found == (folder / source if source else None)


def test_an_absolute_path_wherever_it_starts(folder: Path, tmp_path: Path) -> None:
    script = str(folder / "train.py")
    assert find_source(["python", script], Path("/")) == folder / "train.py"
    assert find_source([script], Path("/gone")) == folder / "train.py"


def test_an_installed_program_only_starts_the_code(folder: Path) -> None:
    assert find_source(["/usr/bin/env", "python", "train.py"], folder) == folder / "train.py"
    for name in ("venv/lib/own.so", "venv/bin/torchrun", "bin/own"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    assert find_source(["venv/bin/torchrun", "train.py"], folder) == folder / "train.py"
    assert find_source(["venv/bin/torchrun"], folder) == folder / "venv/bin/torchrun"
    # One's own program, in a folder of that name.
    assert find_source(["bin/own", "data.csv"], folder) == folder / "bin/own"


def test_an_official_task() -> None:
    found = find_source(["python", "-m", "worker.tasks.steps"], Path("/"))
    assert found == Path(worker.tasks.steps.__file__)
