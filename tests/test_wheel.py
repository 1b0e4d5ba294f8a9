"""The wheel, installed without the repository, as users of PyPI get it."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePath
from zipfile import ZipFile

import pytest

from tests.support.processes import run_text

_REPOSITORY = Path(__file__).parents[1]
_PIP = (sys.executable, "-m", "pip", "--quiet")
# Types that a type checker must infer in a typed script. None of them is object or Any.
_TYPED_SCRIPT = """
from typing import assert_type

from mlbench import ApiClient, Tracker
from mlbench.contract.records import Run

with Tracker() as t, t.phase("forward"):
    assert_type(t, Tracker)
    assert_type(t.train_seconds, float)
    t.step(samples=8, train_loss=0.5)
with ApiClient(url="127.0.0.1:8000", token="a") as client:
    run = client.create_run("mine", 2, benchmark="digits").result().value
    assert_type(run, Run)
    assert_type(client.get_runs().result().value, list[Run])
"""
_WRONG_SCRIPT = """
from mlbench import Tracker, Trakcer

Tracker().step(samples="8")
"""


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the wheel, called from a separate folder."""

    command: Path
    folder: Path
    environ: Mapping[str, str]

    def call(self, *words: str) -> str:
        """Run ``mlbench`` with these arguments; return its output."""
        done = run_text([self.command, *words], cwd=self.folder, env=self.environ)
        assert done.returncode == 0, f"mlbench {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def check_types(self, script: str) -> list[str]:
        """Return the errors that mypy finds in a script."""
        (self.folder / "script.py").write_text(script)
        python = self.command.with_name("python")
        how = ("--strict", "--no-error-summary", "--hide-error-codes", "--python-executable")
        done = run_text(
            [sys.executable, "-m", "mypy", *how, python, "script.py"],
            cwd=self.folder,
            env=self.environ,
        )
        assert not done.stderr
        return done.stdout.splitlines()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    how = ("--no-deps", "--no-build-isolation", "--wheel-dir", folder)
    subprocess.run([*_PIP, "wheel", *how, _REPOSITORY], check=True)
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture
def installed(wheel: Path, tmp_path: Path, prometheus_binary: Path) -> Iterator[Installed]:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = venv / "bin" / "python"
    subprocess.run([*_PIP, "--python", python, "install", "--no-deps", wheel], check=True)
    # Use the other packages of this environment, without its link to the repository.
    (site,) = (venv / "lib").glob("python3*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib"))
    variables = ("PATH", "LANG", "TMPDIR")
    environ = {name: os.environ[name] for name in variables if name in os.environ} | {
        "HOME": str(tmp_path / "home"),
        "PROMETHEUS": str(prometheus_binary),
    }
    (tmp_path / "home").mkdir()
    there = Installed(venv / "bin" / "mlbench", tmp_path, environ)
    try:
        yield there
    finally:
        there.call("down")


@pytest.mark.slow
def test_the_installed_wheel_works(wheel: Path, installed: Installed) -> None:
    # A single test: otherwise each pytest process would build and install the wheel.
    check_top_level_names(wheel)
    check_types_of_client_and_tracker(installed)
    assert version("mlbench-stack") in installed.call("--version")
    assert "publish" in installed.call("--help")
    installed.call("up", "--detach", "--workers", "1")


@pytest.mark.slow
def test_the_core_works_without_extensions(installed: Installed) -> None:
    [site] = installed.command.parents[1].glob("lib/python3*/site-packages")
    for extension in (_REPOSITORY / "extensions").glob("mlbench_*"):
        shutil.rmtree(site / extension.name)
    [entry_points] = site.glob("mlbench_stack-*.dist-info/entry_points.txt")
    entry_points.write_text("")
    installed.call("up", "--detach", "--workers", "2")
    few = ("--set", "goal=50", "--json")
    runs = [
        json.loads(installed.call("run", "digits", "--workers", workers, *few))
        for workers in ("1", "2")
    ]
    ids = [str(run["id"]) for run in runs]
    assert [run["state"] for run in runs] == ["FINISHED", "FINISHED"]
    assert all(run["delivery"]["recorded"] > 100 for run in runs)
    for run_id in ids:
        installed.call("verify", run_id)
    report = installed.folder / "report.html"
    comparison = json.loads(installed.call("compare", *ids, "--json", "-o", str(report)))
    assert [group["reached"] for group in comparison["groups"]] == [1, 1]
    assert "digits" in report.read_text()
    assert "publish" not in installed.call("--help")


@pytest.mark.slow
def test_a_wheel_from_the_source_distribution_is_the_same(wheel: Path, tmp_path: Path) -> None:
    how = ("-m", "hatchling", "build", "--target", "sdist", "--directory", tmp_path)
    subprocess.run([sys.executable, *how], cwd=_REPOSITORY, check=True, capture_output=True)
    (sdist,) = tmp_path.glob("*.tar.gz")
    offline = ("--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path)
    subprocess.run([*_PIP, "wheel", *offline, sdist], check=True)
    (rebuilt,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as first, ZipFile(rebuilt) as second:
        assert sorted(second.namelist()) == sorted(first.namelist())
        metadata = second.read(f"mlbench_stack-{version('mlbench-stack')}.dist-info/METADATA")
    # Twine, which uploads to PyPI, refuses later versions.
    assert metadata.startswith(b"Metadata-Version: 2.4\n")


def check_top_level_names(wheel: Path) -> None:
    with ZipFile(wheel) as content:
        top_level = {PurePath(name).parts[0] for name in content.namelist()}
    assert top_level == {
        *("mlbench", "mlbench_exporter", "mlbench_master", "mlbench_worker"),
        *(extension.name for extension in (_REPOSITORY / "extensions").glob("mlbench_*")),
        f"mlbench_stack-{version('mlbench-stack')}.dist-info",
    }


def check_types_of_client_and_tracker(installed: Installed) -> None:
    assert installed.check_types(_TYPED_SCRIPT) == []
    wrong = installed.check_types(_WRONG_SCRIPT)
    assert [line.partition(": ")[0] for line in wrong] == ["script.py:2", "script.py:4"]
