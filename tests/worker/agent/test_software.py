"""A command's source file, the state of its repository, and its Python's packages."""

import os
import re
import sys
import time
import venv
import warnings
from pathlib import Path

import pytest

from mlbench.contract.records import GitState
from mlbench_worker.agent.software import (
    Pythons,
    ask,
    code_version,
    find_source,
    git_state,
    python_of,
)
from mlbench_worker.tasks import steps
from tests.support.known import known
from tests.worker.agent.conftest import git


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
        ("python -um train", "train.py"),
        ("python -mtrain", "train.py"),
        ("python -m own", "own/__main__.py"),
        ("python -m own.__main__", "own/__main__.py"),
        ("python -m no_such_module", None),
        ("python -c train.py", None),
        ("python", None),
        ("python -m", None),
        ("python gone.py data.csv", None),
        # Programs that only start somebody else's code.
        ("python -m pytest train.py", "train.py"),
        ("torchrun --nproc-per-node 2 train.py data.csv", "train.py"),
        ("bash train.sh", "train.sh"),
        ("./train.sh data.csv", "train.sh"),
        ("true", None),
        ("sh -c x\0y", None),
        (f"echo {'x' * 5000}", None),
    ],
)
def test_the_source_file_of_a_command(folder: Path, command: str, source: str | None) -> None:
    found = find_source(command.split(" "), folder)
    assert found == (folder / source if source else None)


def test_an_installed_launcher_is_not_the_source_file(folder: Path) -> None:
    assert find_source(["/usr/bin/env", "python", "train.py"], folder) == folder / "train.py"
    for name in ("venv/lib/own.so", "venv/bin/torchrun", "bin/own"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    assert find_source(["venv/bin/torchrun", "train.py"], folder) == folder / "train.py"
    assert find_source(["venv/bin/torchrun"], folder) == folder / "venv/bin/torchrun"
    # The user's own program, in a folder named "bin".
    assert find_source(["bin/own", "data.csv"], folder) == folder / "bin/own"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A script that imports two modules, one of them through a package."""
    files = {
        "train.py": "import torch, model\nfrom own import layers\n",
        "model.py": "",
        "own/__init__.py": "",
        "own/layers.py": "from . import blocks\nfrom ..gone import x\n",
        "own/blocks.py": "import train\n",
        "unused.py": "",
    }
    for name, code in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code)
    return tmp_path / "train.py"


@pytest.mark.parametrize(
    ("changed", "is_other"),
    [
        ("train.py", True),
        ("model.py", True),
        ("own/__init__.py", True),
        ("own/layers.py", True),
        ("own/blocks.py", True),
        ("unused.py", False),
    ],
)
def test_the_code_version_covers_the_script_and_its_imports(
    program: Path, tmp_path: Path, changed: str, *, is_other: bool
) -> None:
    before = known(code_version(program, tmp_path, os.environ))
    assert re.fullmatch(r"train\.py [0-9a-f]{12}", before)
    assert code_version(program, tmp_path, os.environ) == before
    with (program.parent / changed).open("a") as file:
        file.write("\nx = 1\n")
    assert (code_version(program, tmp_path, os.environ) != before) == is_other


def test_a_package_imports_from_the_folder_that_contains_it(program: Path, tmp_path: Path) -> None:
    (program.parent / "own/__main__.py").write_text("from own.layers import x\nimport model\n")
    before = code_version(program.parent / "own/__main__.py", tmp_path, os.environ)
    (program.parent / "model.py").write_text("x = 1\n")
    assert code_version(program.parent / "own/__main__.py", tmp_path, os.environ) != before


def test_code_of_a_shell_script_is_also_that_of_the_scripts_it_runs(
    program: Path, tmp_path: Path
) -> None:
    shell = tmp_path / "scripts" / "train.sh"
    shell.parent.mkdir()
    name = program.relative_to(tmp_path)
    shell.write_text(f"set -e\ntorchrun --nproc-per-node 2 {name} --data $DATA\n")
    before = known(code_version(shell, tmp_path, os.environ))
    assert re.fullmatch(r"train\.sh [0-9a-f]{12}", before)
    assert code_version(shell, tmp_path, os.environ) == before
    with (program.parent / "model.py").open("a") as file:
        file.write("\nx = 1\n")
    assert code_version(shell, tmp_path, os.environ) != before


def test_code_without_a_version_or_in_another_language(program: Path, tmp_path: Path) -> None:
    def version(source: Path | None) -> str | None:
        return code_version(source, source.parent if source else tmp_path, os.environ)

    assert version(None) is None
    assert version(tmp_path / "train.ipynb") is None
    assert version(Path(steps.__file__)) is None
    hidden = code_version(program, tmp_path, {"MLBENCH_HIDE_COMMAND": "1"})
    assert hidden == known(version(program)).replace("train.py", "hidden")
    copy = tmp_path / "copy" / "train.py"
    copy.parent.mkdir()
    for content in (b"python train.py\n", b"\0ELF", b"if:", 500_000 * b"(", rb'"\d"'):
        program.write_bytes(content)
        copy.write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert version(program) == version(copy)
        copy.write_bytes(b"x" + content)
        assert version(program) != version(copy)


def dirty(source: Path) -> bool | None:
    state = known(git_state(source, os.environ))
    return state.dirty


def test_a_change_of_a_tracked_file_makes_a_repository_dirty(script: Path) -> None:
    head = git(script.parent, "rev-parse", "HEAD")
    assert git_state(script, os.environ) == GitState(head, False, str(script.parent.parent))
    beside = script.parent.parent / "beside.py"
    beside.touch()
    assert dirty(script) is False
    git(beside.parent, "add", ".")
    assert dirty(script) is True
    git(beside.parent, "commit", "-q", "-m", "second")
    assert dirty(script) is False
    beside.write_text("print(2)\n")
    assert dirty(script) is True


@pytest.mark.parametrize("name", ["new.py", ":(glob)*.py", "-odd.py"])
def test_an_untracked_script_is_dirty(script: Path, name: str) -> None:
    new = script.with_name(name)
    new.touch()
    assert dirty(new) is True
    assert dirty(script) is False


def test_the_repository_in_the_environment_is_ignored(tmp_path: Path, script: Path) -> None:
    other = tmp_path / "other"
    git(tmp_path, "init", "-q", str(other))
    git(other, "commit", "-q", "--allow-empty", "-m", "another")
    state = git_state(script, os.environ | {"GIT_DIR": str(other / ".git")})
    assert state == git_state(script, os.environ)


def test_ignored_files_have_no_git_state(script: Path) -> None:
    (script.parent.parent / ".gitignore").write_text("venv\n")
    installed = script.parent.parent / "venv/bin/train"
    installed.parent.mkdir(parents=True)
    installed.touch()
    assert git_state(installed, os.environ) is None


def test_without_a_repository_the_commit_comes_from_the_environment(
    tmp_path: Path, script: Path
) -> None:
    source = tmp_path / "train.py"
    source.touch()
    stated = {"MLBENCH_GIT_COMMIT": "abc"}
    for file, environ in ((None, os.environ), (source, os.environ), (script, {"PATH": "/nowhere"})):
        assert git_state(file, environ) is None
        assert git_state(file, {**environ, **stated}) == GitState("abc", None, None)
    git(tmp_path, "init", "-q")
    assert git_state(source, os.environ) is None, "the repository has no commit"
    assert git_state(script, os.environ | stated) == git_state(script, os.environ)


def test_the_index_is_not_changed(script: Path) -> None:
    index = script.parent.parent / ".git/index"
    # The changed time would make git update its index.
    os.utime(script)
    before = index.read_bytes()
    assert dirty(script) is False
    assert index.read_bytes() == before


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without installed packages."""
    folder = tmp_path_factory.mktemp("other")
    venv.create(folder, with_pip=False)
    return folder / "bin/python"


def install(python: Path, name: str) -> None:
    """Install an empty distribution, as pip would."""
    [packages] = python.parent.parent.glob("lib/python3*/site-packages")
    folder = packages / f"{name}-1.5.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")


def test_newly_installed_packages_of_another_python_are_found(other: Path) -> None:
    pythons = Pythons(os.environ)
    assert "late" not in getattr(pythons.ask(str(other)), "packages", {"late": ""})
    install(other, "late")
    found = known(pythons.ask(str(other)))
    assert found.packages["late"] == "1.5"
    assert pythons.ask(str(other)) is found  # cached


def test_other_programs_are_not_taken_for_a_python() -> None:
    pythons = Pythons(os.environ)
    assert not any(map(pythons.ask, ["/bin/false", "/bin/echo", "/no/such/python"]))


def test_the_python_of_a_command(other: Path, tmp_path: Path) -> None:
    environ = {"PATH": str(other.parent)}
    for command, python in {
        ("python", "train.py"): str(other),
        (str(other), "train.py"): str(other),
        ("bin/python3", "train.py"): str(tmp_path / "bin/python3"),
        ("python9", "train.py"): sys.executable,
        ("bash", "train.sh"): sys.executable,
        ("./train",): sys.executable,
        ("/somewhere/python3.13t", "train.py"): "/somewhere/python3.13t",
        # Running the script would not print a list of packages.
        ("./python_train.sh",): sys.executable,
        ("./python-train",): sys.executable,
    }.items():
        assert python_of(command, tmp_path, environ) == python


def test_the_python_comes_from_the_shebang_or_is_the_agents(other: Path, tmp_path: Path) -> None:
    script, environ = tmp_path / "train", {"PATH": f"{tmp_path}:{other.parent}"}
    for first in (f"#!{other}", "#!/usr/bin/env python", "#! /usr/bin/env -S python -u"):
        script.write_text(f"{first}\nimport torch\n")
        script.chmod(0o755)
        for command in ("./train", str(script), "train"):
            assert python_of([command], tmp_path, environ) == str(other)
    for content in (b"#!/bin/sh\npython train.py\n", b"\x7fELF python", b"#!", b""):
        script.write_bytes(content)
        assert python_of(["./train"], tmp_path, environ) == sys.executable
    assert python_of(["."], tmp_path, environ) == sys.executable


_ENVIRON = {"PATH": os.environ["PATH"]}


def answer(code: str, seconds: float = 20.0) -> bytes | None:
    return ask([sys.executable, "-c", code], Path("/"), _ENVIRON, seconds)


def test_failed_output_is_ignored_and_long_output_is_cut() -> None:
    assert answer("print('yes'); raise SystemExit(1)") is None
    assert len(answer("while True: print('x' * 1000)") or b"") == 1 << 20


@pytest.mark.parametrize(
    "code",
    [
        "import os, time; os.close(1); time.sleep(60)",
        # A process in another session holds the pipe open.
        "import subprocess; subprocess.Popen(['sleep', '20'], start_new_session=True)",
    ],
)
def test_a_process_that_does_not_end_times_out(code: str) -> None:
    began = time.monotonic()
    assert answer(code, 0.5) is None
    assert time.monotonic() - began < 5
