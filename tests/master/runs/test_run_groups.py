"""Groups of runs: their runs, means and confidence intervals."""

from dataclasses import asdict
from math import sqrt
from statistics import mean, variance
from typing import Any

import pytest
import scipy  # scipy.special is loaded on access
from peewee import Database

from mlbench.contract.records import RunGroup
from mlbench.evaluation.summary_metrics import SummaryMetrics
from mlbench_master.database.models import Run
from mlbench_master.errors import BadFieldError
from mlbench_master.runs.listing import count_runs
from mlbench_master.runs.run_groups import MAX_GROUPS, GroupQuery, group_runs
from mlbench_master.runs.run_query import parse
from tests.support.known import known
from tests.support.rows import make_ranks, make_run

pytestmark = pytest.mark.both_databases

_SECONDS = [12.5, 14.0, 11.0, 18.0]


def groups(*by: str, columns: tuple[str, ...] = (), order: str = "", q: str = "") -> list[RunGroup]:
    return group_runs(GroupQuery(group=by, query=parse(q), columns=columns, order=order))


def numbers(found: list[RunGroup]) -> list[tuple[Any, ...]]:
    return [(*group.values.values(), group.runs) for group in found]


def make(workers: int = 1, best: float | None = None, **fields: Any) -> Run:
    figures = asdict(SummaryMetrics(metric="score", best_value=best))
    return make_run(workers, state="FINISHED", figures=figures, **fields)


def test_the_interval_of_a_share_is_within_0_and_1(database: Database) -> None:
    for share in (0.01, 0.45):
        figures = SummaryMetrics(goodput_share=share, metric="Prec@1", best_value=99 + share)
        make_run(1, state="FINISHED", figures=asdict(figures))
    [group] = groups("workers", columns=("goodput", "accuracy"))
    for name, whole in (("goodput", 1), ("accuracy", 100)):
        mean = known(group.means[name])
        assert 0 <= known(mean.low) < known(mean.mean) < known(mean.high) <= whole


def test_means_and_intervals_match_scipy(database: Database) -> None:
    scores = [-2.0, 1.0, 3.5, 0.5]
    for seconds, score in zip(_SECONDS, scores, strict=True):
        make(2, score, target_train_seconds=seconds)
    make(2)
    make(1, 7.0)
    alone, several = groups("workers", columns=("time_to_target", "best", "state"))
    assert numbers([alone, several]) == [(1, 1), (2, 5)]

    assert alone.means["time_to_target"] is None
    best = known(alone.means["best"])
    assert (best.count, best.mean, best.low, best.high) == (1, 7.0, None, None)
    assert several.means["state"] is None

    t = scipy.special.stdtrit(3, 0.975)  # quantile of Student's t
    times, best = known(several.means["time_to_target"]), known(several.means["best"])
    assert (times.count, best.count) == (4, 4)
    assert (times.mean, best.mean) == pytest.approx((mean(_SECONDS), mean(scores)))
    width = t * sqrt(variance(scores) / 4)
    assert (best.low, best.high) == pytest.approx((mean(scores) - width, mean(scores) + width))
    width = t * sqrt(variance(_SECONDS) / 4)
    assert (times.low, times.high) == pytest.approx((times.mean - width, times.mean + width))


def test_runs_of_a_set_are_grouped_by_swept_values(database: Database) -> None:
    for workers, swept in (
        (2, {"exchange": "flat", "latency": "5ms"}),
        (2, {"exchange": "flat", "latency": "5ms"}),
        (4, {"exchange": "flat", "latency": "5ms"}),
        (2, {"exchange": "topk", "latency": "5ms"}),
    ):
        make(workers, set_name="s", swept=swept)
    make(1)
    rows = groups("set")
    assert numbers(rows) == [
        ("s", "exchange=flat, latency=5ms", 2, 2),
        ("s", "exchange=flat, latency=5ms", 4, 1),
        ("s", "exchange=topk, latency=5ms", 2, 1),
        (None, None, 1, 1),
    ]
    for row in rows:
        terms = [f'{name}="{"" if value is None else value}"' for name, value in row.values.items()]
        assert sum(count_runs(parse(" ".join(terms))).states.values()) == row.runs


def test_groups_count_their_versions_of_the_code(database: Database) -> None:
    versions: list[dict[str, Any]] = [
        {"code": "train.py a"},
        {"code": "train.py a"},
        {"code": "train.py b"},
        {"code": "train.py b", "git": {"commit": "c"}},
        {"git": {"commit": "c"}},
    ]
    for workers, machines in enumerate((versions[:2], versions, [{"hostname": "h"}]), 1):
        for machine in machines:
            make_ranks(make(workers), machine=machine)
        make(workers)
    assert [group.code_versions for group in groups("workers")] == [1, 4, 0]
    assert [group.code_versions for group in groups("code", "commit")] == [1, 1, 1, 1, 0]


def test_search_terms_find_the_runs_of_each_group(database: Database) -> None:
    day = 1767225600.0
    make(tags=["a b", "c"], created_at=day + 5, settings={"density": 0.1, "compile": True})
    make(tags=["c"], created_at=day + 80000, args={"density": "0.1", "own": "x 1"})
    make(created_at=day + 86400, settings={"density": "none", "compile": False})
    for name, expected in (
        ("tag", [("a b", 1), ("c", 2), (None, 1)]),
        ("created", [("2026-01-01", 2), ("2026-01-02", 1)]),
        ("density", [(0.1, 2), ("none", 1)]),
        ("compile", [(False, 1), (True, 1), (None, 1)]),
        ("own", [("x 1", 1), (None, 2)]),
        ("duration", [(None, 3)]),
        ("best", [(None, 3)]),
    ):
        assert numbers(groups(name)) == expected, name
        for value, runs in expected:
            term = f'{name}="{"" if value is None else str(value).lower()}"'
            assert sum(count_runs(parse(term)).states.values()) == runs, term


def test_groups_are_filtered_and_sorted(database: Database) -> None:
    for workers, best in ((1, 5.0), (2, None), (4, 9.0), (4, 9.0), (8, 1.0)):
        make(workers, best)
    for order, expected in (
        ("", [1, 2, 4, 8]),
        ("-workers", [8, 4, 2, 1]),
        ("best", [8, 1, 4, 2]),
        ("-best", [4, 1, 8, 2]),
        ("-runs", [4, 1, 2, 8]),
    ):
        shown = groups("workers", columns=("best",), order=order)
        assert [row.values["workers"] for row in shown] == expected, order
    assert numbers(groups("workers", q="workers>2 state=finished")) == [(4, 2), (8, 1)]
    assert not groups("workers", q="workers>8")


def test_invalid_groups_are_refused(database: Database) -> None:
    for number in range(MAX_GROUPS + 1):
        make(seed=number)
    for by, order, problem in (
        ((), "", "group: must name a field, such as exchange"),
        (("wrkers",), "", "group: unknown field wrkers. Did you mean workers?"),
        (("workers",), "best", "order: must be a displayed field, or runs (got 'best')"),
        (("seed", "set"), "", "group: more than 500 groups by seed, set, swept"),
    ):
        with pytest.raises(BadFieldError) as refused:
            groups(*by, order=order)
        assert str(refused.value).startswith(problem)
    assert len(groups("seed", q="seed>0")) == MAX_GROUPS
