"""Titles and subtitles of reports."""

from mlbench.report.statement import subtitle, title
from tests.support.results import make_aimless, make_comparison, make_matrix, make_sweep


def test_the_title_names_tasks_and_workers() -> None:
    matrix, alone = make_matrix((1, 2, 4), 2), make_comparison([make_aimless(1)])
    assert title(matrix) == "digits on 1, 2, 4 workers"
    assert subtitle(matrix) == "6 runs, target: Validation accuracy ≥ 97 %"
    swept = "18 runs, target: Validation accuracy ≥ 97 %, swept: exchange, bandwidth"
    assert subtitle(make_sweep()) == swept
    assert (title(alone), subtitle(alone)) == ("own code on 1 worker", "1 run, no target")
