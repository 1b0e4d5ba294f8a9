"""Files are verified, compared and published without master and PyTorch installed."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.processes import run_text

_SET = Path(__file__).parents[3] / "docs" / "archives" / "results-digits-linear.mlbench"
_NOT_INSTALLED = """
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        ours = {"mlbench_master", "mlbench_worker", "mlbench_exporter"}
        if name.partition(".")[0] in ours | {"falcon", "peewee", "torch"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NotInstalled())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["verify", str(_SET)], "verified: nothing is missing or damaged"),
        (["compare", str(_SET)], "10 runs, target: Validation accuracy ≥ 93 %"),
        (["publish", str(_SET), "-o", "site"], "site/index.html: 14 runs"),
    ],
)
def test_files_need_no_master(words: list[str], says: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_NOT_INSTALLED)
    done = run_text(
        [sys.executable, "-m", "mlbench", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert says in done.stdout
