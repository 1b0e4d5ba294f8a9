"""Fields of runs: search terms, sorting and columns."""

import time
from dataclasses import asdict
from typing import Any

import pytest
from peewee import Database

from mlbench.evaluation.summary_metrics import SummaryMetrics
from mlbench_master.database.models import Run, Stream, run_owner
from mlbench_master.errors import BadFieldError
from mlbench_master.runs.listing import RunQuery, count_runs, list_runs
from mlbench_master.runs.run_columns import FIELDS, all_fields
from mlbench_master.runs.run_query import parse
from tests.support.rows import make_ranks, make_run

pytestmark = pytest.mark.both_databases

_CODE = "train.py 3f2a91c8b0d1"
_GIT = {"commit": "abc123f"}
_MACHINE = {"cpu_model": "Sixty 4", "hostname": "h1", "git": _GIT, "code": _CODE}

_LOSSES = {"loss": 3.5, "val_loss": 0.25}


@pytest.fixture
def runs(database: Database) -> dict[str, Run]:
    """Two runs that trained, and one that is queued."""

    def figures(**values: Any) -> dict[str, Any]:
        return asdict(SummaryMetrics(**{"metric": "val_global_Prec@1"} | values))

    ended: dict[str, Any] = {"state": "FINISHED", "started_at": 100.0}
    fast = make_run(
        4,
        **ended,
        name="fast",
        benchmark="digits",
        finished_at=160.0,
        archive_bytes=1_000,
        set_name="s",
        num_cpus=1.5,
        max_bandwidth=20.0,
        created_at=1767225600.0,
        settings={"exchange": "topk", "density": 0.01, "device": "cpu", "compile": True},
        figures=figures(
            best_value=97.5,
            last_value=96.0,
            communication_share=0.25,
            metrics={"train_loss": {"min": 0.1, "max": 3.0, "last": 0.25}},
        ),
    )
    slow = make_run(
        1,
        **ended,
        name="slow",
        benchmark="digits",
        finished_at=7300.0,
        settings={"exchange": "PowerSGD", "density": 0.1, "compile": False},
        figures=figures(best_value=91, samples_per_second=1e3, goodput_share=0.6),
    )
    waits = make_run(
        2,
        name="waits",
        title="Later",
        tags=["a b", "paper"],
        benchmark="",
        state="INITIALIZED",
        args={"density": "0.05", "own": "x 1"},
    )
    make_ranks(fast, machine=_MACHINE)
    of_rank: dict[str, Any] = {"owner": run_owner(fast.id), "attempt": 1, "rank": 0}
    # 100 bytes of this log are stored. Samples count with the archive.
    Stream.create(**of_rank, name="stdout", size=1000, gap_start=50, gap_end=950)
    Stream.create(**of_rank, name="metrics", size=5000)
    return {"fast": fast, "slow": slow, "waits": waits}


def found(query: str, order: str = "") -> list[str]:
    return [run.name for run in list_runs(RunQuery(query=parse(query), order=order))]


def test_search_terms_find_runs(runs: dict[str, Run]) -> None:
    for query, names in (
        ("exchange=powersgd", ["slow"]),
        ("exchange:O", ["fast", "slow"]),
        ("exchange!=topk", ["slow", "waits"]),
        ("density<=0.05", ["fast", "waits"]),
        ("density=1e-2", ["fast"]),
        ("compile=true", ["fast"]),
        ('own="x 1"', ["waits"]),
        ("accuracy>95%", ["fast"]),
        ("val_global_Prec@1<95 best=91", ["slow"]),
        ("last>90", ["fast"]),
        ("train_loss=0.25 train_loss.min<0.2 train_loss.max>=3", ["fast"]),
        ("perplexity>0", []),
        ("communication>=25%", ["fast"]),
        ("throughput=1000", ["slow"]),
        ("goodput>50%", ["slow"]),
        ("workers>1.5", ["fast", "waits"]),
        ("workers!=4", ["slow", "waits"]),
        ("cores=1.5 bandwidth=0.02Gbit", ["fast"]),
        ("duration>1h", ["slow"]),
        ("duration=60", ["fast"]),
        ("created>=2026-01-01 created<2026-01-02", ["fast"]),
        ("machine:sixty host=H1 commit:abc123", ["fast"]),
        (f'code="{_CODE}"', ["fast"]),
        ("machine!=x", ["fast", "slow", "waits"]),
        ("state:finished division=closed slow", ["slow"]),
        ("division=open", ["waits"]),
        ("set=S", ["fast"]),
        ('tag:paper tag="a b" name=later', ["waits"]),
        ("tag:pape", []),
        ("tag!=paper", ["fast", "slow"]),
        ("accuracy > 95", ["fast"]),
        ("NOT tag:paper", ["fast", "slow"]),
        ("NOT accuracy>95", ["slow", "waits"]),
        ("exchange=topk OR exchange=powersgd", ["fast", "slow"]),
        ("exchange=topk OR exchange=powersgd best=91", ["slow"]),
        ("NOT fast", ["slow", "waits"]),
        ("size>1kB", ["fast"]),
        ("size=1100", ["fast"]),
        ("size=0", ["slow", "waits"]),
        ("id<1e300 id>-1e999", ["fast", "slow", "waits"]),
        ("id=" + "9" * 40, []),
    ):
        assert found(query) == names, query
        assert sum(count_runs(parse(query)).states.values()) == len(names), query


def test_a_metric_is_not_confused_with_a_target_whose_name_contains_it(database: Database) -> None:
    last = {name: {"min": value, "max": value, "last": value} for name, value in _LOSSES.items()}
    figures = SummaryMetrics(metric="val_loss", best_value=0.2, metrics=last)
    make_run(name="own", state="FINISHED", figures=asdict(figures))
    for query, names in (("loss=3.5", ["own"]), ("loss<1", []), ("val_loss=0.2", ["own"])):
        assert found(query) == names, query


def test_runs_are_sorted_with_missing_values_last(runs: dict[str, Run]) -> None:
    for order, names in (
        ("accuracy", ["slow", "fast", "waits"]),
        ("-accuracy", ["fast", "slow", "waits"]),
        ("-density", ["slow", "waits", "fast"]),
        ("exchange", ["slow", "fast", "waits"]),
        ("-machine", ["fast", "waits", "slow"]),
        ("-state", ["waits", "slow", "fast"]),
        ("train_loss", ["fast", "waits", "slow"]),
    ):
        assert found("", order) == names, order


def test_every_field_can_be_a_column(runs: dict[str, Run]) -> None:
    for order in FIELDS:
        columns = (*FIELDS, "density", "own")
        fast, *_ = list_runs(RunQuery(query=parse("fast"), columns=columns, order=order))
    shown = {name: value for name, value in fast.values.items() if value not in {None, "", 0}}
    assert shown.items() >= {
        **{"id": runs["fast"].id, "state": "FINISHED", "workers": 4, "density": 0.01},
        **{"size": 1100, "commit": "abc123f", "code": _CODE},
        **{"created": "2026-01-01T00:00:00.000000Z", "accuracy": 97.5},
    }.items()  # fmt: skip
    assert fast.values["own"] is None


def test_metrics_are_fields(runs: dict[str, Run]) -> None:
    names = [field.name for field in all_fields()]
    assert names[-1] == "train_loss"
    assert names[: len(FIELDS)] == list(FIELDS)


def test_invalid_terms_are_refused(database: Database) -> None:
    for query, problem in (
        ("exchnge=topk", "query: unknown field exchnge. Did you mean exchange?"),
        ("zzzz:1", "query: unknown field zzzz. Use id, name, "),
        ("workers=two", "query: workers=two: must be a number (got 'two')"),
        ("duration>1week", "query: duration>1week: must be a number, with or without a unit (ms, "),
        ("state=done", "query: state=done: must be one of INITIALIZED, STARTED, FINISHED, FAILED"),
        ("name>a", "query: name>a: requires one of the operators =, != and : (got '>')"),
        ("exchange>a", "query: exchange>a: must be a number (got a)"),
        ("created>soon", "query: created>soon: must be a time such as 2018-08-03"),
        ("created=7d", "query: created=7d: a relative time requires >, >=, < or <="),
    ):
        with pytest.raises(BadFieldError) as refused:
            found(query)
        assert str(refused.value).startswith(problem)


def test_a_relative_time_counts_back_from_now(database: Database) -> None:
    for days in (1, 5, 20):
        make_run(name=f"ago-{days}", created_at=time.time() - days * 86400)
    for query, names in (
        ("created>7d", ["ago-1", "ago-5"]),
        ("created < 1w", ["ago-20"]),
        ("created>=3w created<=36h", ["ago-5", "ago-20"]),
    ):
        assert found(query) == names, query
