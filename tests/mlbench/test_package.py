"""Public names of ``import mlbench``."""

import subprocess
import sys

import pytest

import mlbench


def test_dir_shows_only_the_public_names() -> None:
    names = ["ApiClient", "MLBenchError", "Tracker", "open", "record"]
    assert dir(mlbench) == sorted(mlbench.__all__) == names
    assert all(callable(getattr(mlbench, name)) for name in names)
    assert not hasattr(mlbench, "Client")


@pytest.mark.parametrize(
    ("module", "unused"),
    [
        *(("mlbench", "httpx"), ("mlbench.client", "kubernetes")),
        ("mlbench.archive, mlbench.cli", "pyarrow"),
        ("mlbench.cli.show", "mlbench.benchmarks.options"),
        *(("mlbench.cli.show", f"mlbench.contract.{name}") for name in ("results", "diagnosis")),
    ],
)
def test_unused_packages_are_not_imported(module: str, unused: str) -> None:
    code = f"import sys, {module}; sys.exit({unused!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
