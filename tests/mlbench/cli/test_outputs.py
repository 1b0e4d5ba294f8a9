"""The files of ``-o``."""

import json
import sys
from pathlib import Path

import pytest

from mlbench.cli import outputs
from mlbench.cli.common import WrongCallError
from mlbench.client import Run
from mlbench.results import Comparison
from tests.mlbench.cli.conftest import Mlbench


def test_every_kind_is_taken(tmp_path: Path) -> None:
    outputs.check([tmp_path / f"report{kind}" for kind in (".json", ".csv", ".md", ".HTML")])


@pytest.mark.parametrize("name", ["report", "report.pdf", "folder.md", "missing/report.md"])
def test_what_cannot_be_written_is_refused_before(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.md").mkdir()
    with pytest.raises(WrongCallError, match=f"^-o {tmp_path / name}: "):
        outputs.check([tmp_path / name])


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_without_the_extra_the_page_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    outputs.check([tmp_path / "report.md"])
    with pytest.raises(WrongCallError, match=r"pip install 'mlbench\[report\]'"):
        outputs.check([tmp_path / "report.html"])


def test_each_file_is_what_its_name_says(mlbench: Mlbench, finished: Run, tmp_path: Path) -> None:
    kinds = (".json", ".csv", ".md", ".html")
    files = [tmp_path / f"report{kind}" for kind in kinds]
    given = [word for file in files for word in ("-o", str(file))]
    done = mlbench("compare", str(finished.id), *given)
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("".join(f"written: {file}\n" for file in files))
    as_json, as_csv, as_markdown, as_page = (file.read_text() for file in files)
    assert json.loads(as_json) == mlbench("compare", str(finished.id), "--json").json
    assert Comparison.from_fields(json.loads(as_json)).results[0].run_id == finished.id
    assert as_csv.startswith("run_id,name,")
    assert len(as_csv.splitlines()) == 2
    assert as_markdown.startswith("# steps on 2 workers\n")
    assert f"## Run {finished.id} ran on" in as_markdown
    assert as_page.startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("name", "message"),
    [("a.md", "it is a folder"), ("missing/a.md", "there is no folder missing")],
)
def test_what_is_wrong_with_a_folder_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.md").mkdir()
    with pytest.raises(WrongCallError, match=f"^-o {name}: {message}$"):
        outputs.check([Path(name)])
