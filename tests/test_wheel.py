"""The wheel, installed without a clone of the repository: what PyPI's users get."""

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).parents[1]


@dataclass(frozen=True)
class Installed:
    """An environment that holds the wheel, called from a folder of its own."""

    command: Path
    folder: Path
    environ: Mapping[str, str]

    def call(self, *words: str) -> str:
        """Run `mlbench` with these words and return what it prints."""
        done = subprocess.run(
            [self.command, *words],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"mlbench {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def installed(tmp_path: Path, prometheus_binary: Path) -> Iterator[Installed]:
    pip, venv = (sys.executable, "-m", "pip", "--quiet"), tmp_path / "venv"
    how = ("--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path)
    subprocess.run([*pip, "wheel", *how, _REPOSITORY], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    python = venv / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", "--no-deps", wheel], check=True)
    # Other packages are those of this environment, without its link to the repository.
    (site,) = (venv / "lib").glob("python3*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib"))
    kept = ("PATH", "LANG", "TMPDIR")
    environ = {name: os.environ[name] for name in kept if name in os.environ} | {
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
def test_up_run_and_bench(installed: Installed) -> None:
    installed.call("up", "--detach", "--workers", "1")
    few = ("--set", "goal=50")
    run = json.loads(installed.call("run", "digits", "--workers", "1", *few, "--json"))
    manifest = json.loads(installed.call("manifest", str(run["id"]), "--json"))
    report = installed.folder / "report.html"
    installed.call(
        "bench", "digits-linear", "--workers", "1", "--repeats", "1", *few, "-o", str(report)
    )
    assert run["state"] == "FINISHED"
    assert manifest["versions"]["mlbench"] in installed.call("--version")
    assert "digits-linear" in report.read_text()
