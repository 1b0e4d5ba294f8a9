"""What Pythons say that they have installed: this one, and one in a folder of the test's."""

import os
import platform
import sys
import venv
from importlib.metadata import version
from pathlib import Path

import pytest

from worker.agent.python import Pythons, python_of


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has nothing installed."""
    folder = tmp_path_factory.mktemp("other")
    venv.create(folder, with_pip=False)
    return folder / "bin/python"


def install(python: Path, name: str) -> None:
    """Install an empty distribution, as pip would leave it."""
    [packages] = python.parent.parent.glob("lib/python3*/site-packages")
    folder = packages / f"{name}-1.5.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")


def test_this_python() -> None:
    found = Pythons(os.environ).ask(sys.executable)
    assert found is not None
    assert found.version == platform.python_version()
    assert found.packages["mlbench"] == version("mlbench")
    assert found.packages["pytest"] == version("pytest")


def test_another_python_and_what_is_installed_meanwhile(other: Path) -> None:
    pythons = Pythons(os.environ)
    assert "late" not in getattr(pythons.ask(str(other)), "packages", {"late": ""})
    install(other, "late")
    found = pythons.ask(str(other))
    assert found is not None
    assert found.packages["late"] == "1.5"
    assert pythons.ask(str(other)) is found  # not asked again


def test_a_broken_distribution_is_left_out(other: Path) -> None:
    [packages] = other.parent.parent.glob("lib/python3*/site-packages")
    (packages / "~orch-1.0.dist-info").mkdir()
    found = Pythons(os.environ).ask(str(other))
    assert found is not None
    assert all(found.packages)
    assert "torch" not in found.packages


@pytest.mark.parametrize("program", ["/bin/false", "/bin/echo", "/no/such/python"])
def test_a_program_that_is_no_python_says_nothing(program: str) -> None:
    assert Pythons(os.environ).ask(program) is None


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
        # It would run, and not say what it has installed.
        ("./python_train.sh",): sys.executable,
        ("./python-train",): sys.executable,
    }.items():
        assert python_of(command, tmp_path, environ) == python


@pytest.mark.parametrize(
    "first", ["#!{other}", "#!/usr/bin/env python", "#! /usr/bin/env -S python -u"]
)
def test_the_python_that_a_script_names(other: Path, tmp_path: Path, first: str) -> None:
    script = tmp_path / "train"
    script.write_text(first.format(other=other) + "\nimport torch\n")
    script.chmod(0o755)
    for command in (["./train"], [str(script)]):
        assert python_of(command, tmp_path, {"PATH": str(other.parent)}) == str(other)
    assert python_of(["train"], Path("/"), {"PATH": f"{tmp_path}:{other.parent}"}) == str(other)


@pytest.mark.parametrize(
    "content", [b"#!/bin/sh\npython train.py\n", b"\x7fELF python", b"#!", b""]
)
def test_of_a_program_that_names_no_python_it_is_the_agents(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "train").write_bytes(content)
    assert python_of(["./train"], tmp_path, os.environ) == sys.executable
    assert python_of(["."], tmp_path, os.environ) == sys.executable
