"""API records of runs: ranks and reasons."""

from collections.abc import Mapping
from typing import Any

import pytest
from peewee import Database

from mlbench_master.runs import presenters
from tests.support.rows import make_ranks, make_run

pytestmark = pytest.mark.both_databases


@pytest.mark.parametrize(
    ("recorded", "fields", "said"),
    [
        (0, {}, "it recorded nothing"),
        (1, {}, ""),
        (0, {"benchmark": "digits"}, ""),
        (0, {"state": "STOPPED"}, ""),
        (0, {"reason": "stopped at its deadline"}, "stopped at its deadline; it recorded nothing"),
    ],
)
def test_a_custom_run_without_samples_has_a_hint(
    database: Database, recorded: int, fields: Mapping[str, Any], said: str
) -> None:
    counted = {"recorded": recorded, "in_prometheus": recorded, "record_only": 0}
    run = make_run(**{"benchmark": "", "state": "FINISHED", "delivery": counted, **fields})
    assert presenters.reason_of(run).partition(",")[0] == said


def test_the_hint_names_the_installed_library(database: Database) -> None:
    run = make_run(benchmark="", state="FINISHED", delivery={"recorded": 0})
    packages = {"keras": "3.12.0", "numpy": "2.4.6"}
    make_ranks(run, machine={"python": "3.11.7", "packages": packages})
    [summary, how, *_, keras] = presenters.reason_of(run).split("\n\n")
    assert summary == "it recorded nothing, so there is no result"
    assert how.endswith(", after MLBench is installed in its Python:")
    assert keras.strip() == "Keras: callbacks=[mlbench_callbacks.keras.MLBenchCallback()]"


def test_many_runs_have_their_ranks(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presenters, "_MAX_IDS", 2)
    first, second, third = (make_run() for _ in range(3))
    for run in (first, second, third):
        make_ranks(run)
    described = presenters.describe_all([second, third, first])
    ranks = [(run.id, len(run.ranks)) for run in described]
    assert ranks == [(second.id, 2), (third.id, 2), (first.id, 2)]
