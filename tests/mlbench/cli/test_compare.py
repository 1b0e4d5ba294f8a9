"""``mlbench compare``, and the printed form of a comparison."""

import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from mlbench.cli import compare
from mlbench.cli.common import UsageError
from mlbench.contract.comparisons import Comparison
from mlbench.contract.records import Run
from tests.mlbench.cli.conftest import Mlbench
from tests.support.results import judged, make_difference, make_matrix


def printed(monkeypatch: pytest.MonkeyPatch, comparison: Comparison, columns: int = 80) -> str:
    paper = io.StringIO()
    monkeypatch.setattr(compare, "out", Console(file=paper, width=columns, markup=False))
    compare.show_comparison(comparison)
    return paper.getvalue()


def cells_of(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_every_figure_fits_on_a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(monkeypatch, make_matrix((1, 2, 4), 5))
    lines, cells = text.splitlines(), cells_of(text)
    # Sentences are not wrapped if the output is not a terminal.
    assert max(len(line) for line in lines if "differ from" not in line) <= 80
    assert "2 workers 5/5 4.51 4.26 4.76 0.196 8.96 1.74 87.1" in cells
    assert "4 workers 5 5,003 3.03 75.8 20.00 3,000 98.58 33.81" in cells
    assert "4 workers 0.069 1.04 1.38 0.690 0.104 0.035 0.35 0.138 3.80" in cells
    assert "15 digits-w4-r5 2.73 7.00 98.58 4,735 20.00 34.57" in cells


def test_the_longest_name_is_wrapped_and_no_figure_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = make_matrix((1,), 2)
    results = tuple(replace(result, name="Z" * 40) for result in matrix.results)
    text = printed(monkeypatch, replace(matrix, results=results))
    assert text.count("Z") == 80
    assert "14.89" in text


@pytest.mark.parametrize("columns", [30, 60])
def test_a_narrow_terminal_shows_lists(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    matrix = make_matrix((1, 2), 3)
    labels = [f"{group.label}, {'x' * 80}" for group in matrix.groups]
    pairs = zip(matrix.groups, labels, strict=True)
    groups = tuple(replace(group, label=label, evidence=None) for group, label in pairs)
    text = printed(monkeypatch, judged(replace(matrix, groups=groups, caution="")), columns)
    assert max(map(len, text.splitlines())) <= columns
    cells = cells_of(text)
    assert {"efficiency by time % 87.1", "slowest s 4.51", "comm. share % 10.00"} <= {*cells}
    assert "".join(cells).count("x") >= 2 * 80 * 3, "the label must be complete in each table"


def test_why_runs_cannot_be_compared_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = make_matrix((1, 2), 1).results
    diffs = [make_difference("batch_size", "yes", "batch_size is 32 [b] and 64")]
    diffs += [make_difference("cpu", "no", "cpu is a and b")]
    matrix = replace(make_matrix((1, 2), 1), comparable="no", differences=(*diffs,))
    results = (replace(first, rule_violations=("its target is 90",)), second)
    text = printed(monkeypatch, judged(replace(matrix, results=results)))
    assert text.splitlines()[:9] == [
        "digits on 1, 2 workers",
        "2 runs, target: Validation accuracy ≥ 97 %",
        "These runs cannot be compared. They differ in what a result depends on:",
        "  batch_size is 32 [b] and 64",
        "Rule violations:",
        "  run 1: its target is 90",
        "What else differs:",
        "  cpu is a and b",
        "",
    ]


def test_runs_are_compared_by_id_and_name(mlbench: Mlbench, finished: Run) -> None:
    compared = json.loads(mlbench("compare", str(finished.id), "--json").output)
    assert compared["results"][0]["target"] is None
    options = ("--target", "train_loss<=0.5", "--after", "1m", "--price", "0.5")
    [result] = mlbench("compare", "finished", *options, "--json").json["results"]
    assert (result["run_id"], result["target"]["metric"]) == (finished.id, "train_loss")
    assert result["time_to_target"]["wall_seconds"] > 0
    assert result["accuracy_after_time"]["limit_seconds"] == 60
    assert result["cost"]["total"] == pytest.approx(0.5 * result["cost"]["worker_seconds"])


def test_a_target_with_an_unrecorded_metric_is_reported(mlbench: Mlbench, finished: Run) -> None:
    done = mlbench("compare", "finished", "--target", "foo>=3")
    assert (done.code, done.err) == (0, "--target: no run has recorded foo\n")
    assert mlbench("compare", "finished", "--target", "train_loss<=1e-9").err == ""


def test_a_comparison_is_printed_without_its_file(mlbench: Mlbench, finished: Run) -> None:
    done = mlbench("compare", "finished", "-o", "/proc/report.json")
    assert done.code == 2
    assert done.err.startswith("mlbench: -o /proc/report.json: ")
    assert done.out.startswith("steps on 2 workers\n1 run, no target\n")


def test_wrong_arguments_are_refused(mlbench: Mlbench, finished: Run) -> None:
    assert mlbench("compare", "4711").refusal == "mlbench: run 4711 not found\n"
    refused = mlbench("compare", "finished", "--target", "nonsense").refusal
    assert refused.startswith("mlbench: --target: ")


# --- The files of -o ---


@pytest.mark.parametrize("name", ["report", "report.pdf", "folder.json", "missing/report.json"])
def test_unwritable_files_are_refused_before_the_first_run(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(UsageError, match=f"^-o {tmp_path / name}: "):
        compare.check_files([tmp_path / name])


def test_a_missing_extra_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    compare.check_files([tmp_path / "report.json"])
    with pytest.raises(UsageError, match=r"pip install '\.\[report\]'"):
        compare.check_files([tmp_path / "report.html"])


def test_the_file_name_sets_the_format(mlbench: Mlbench, finished: Run, tmp_path: Path) -> None:
    files = [tmp_path / f"report{kind}" for kind in (".json", ".html")]
    given = [word for file in files for word in ("-o", str(file))]
    printed = mlbench("compare", str(finished.id), *given).output
    assert printed.endswith("".join(f"written: {file}\n" for file in files))
    as_json, as_page = (file.read_text() for file in files)
    assert json.loads(as_json) == mlbench("compare", str(finished.id), "--json").json
    assert Comparison.from_fields(json.loads(as_json)).results[0].run_id == finished.id
    assert as_page.startswith("<!doctype html>")
