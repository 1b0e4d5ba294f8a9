"""What the agent's /metrics says before, while and after it runs a rank."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from mlbench import names
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.exits import Exit
from mlbench_worker.agent.scraped import WorkerCollector
from tests.worker.agent.test_attempt import ASSIGNMENT

_RANK = {"run_id": "7", "rank": "1"}


@pytest.fixture
def collector() -> WorkerCollector:
    return WorkerCollector("w-3")


@pytest.fixture
def registry(collector: WorkerCollector) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(collector)
    return registry


def info(registry: CollectorRegistry) -> dict[str, str]:
    [family] = [f for f in registry.collect() if f.name == "mlbench_worker_info"]
    [sample] = family.samples
    return sample.labels


def test_an_idle_worker_has_no_rank(registry: CollectorRegistry) -> None:
    assert info(registry) == {"pod": "w-3", "run_id": "", "rank": ""}
    names = {family.name for family in registry.collect()}
    assert names == {"mlbench_worker_info", "mlbench_worker_time_seconds"}


def test_a_rank_runs_until_its_process_has_ended(
    collector: WorkerCollector, registry: CollectorRegistry, tmp_path: Path
) -> None:
    attempt = Attempt.create(tmp_path, ASSIGNMENT)
    collector.show(attempt)
    assert info(registry) == {"pod": "w-3", **_RANK}
    assert registry.get_sample_value("mlbench_worker_running", _RANK) == 1
    attempt._note_exit(Exit(0, 1.0))
    assert registry.get_sample_value("mlbench_worker_running", _RANK) == 0
    collector.show_idle()
    assert info(registry) == {"pod": "w-3", "run_id": "", "rank": ""}
    assert registry.get_sample_value("mlbench_worker_running", _RANK) == 0


def test_a_worker_with_several_processes_has_their_ranks(
    collector: WorkerCollector, registry: CollectorRegistry, tmp_path: Path
) -> None:
    attempt = Attempt.create(tmp_path, ASSIGNMENT)
    collector.show(attempt)
    code = (
        "from mlbench.totals import Totals\n"
        "for rank in ('10', '9', 'other', '-1'): Totals('7', rank).publish(3, 30, {})"
    )
    environ = {**os.environ, names.ENV_MULTIPROC_DIR: str(attempt.counters)}
    subprocess.run([sys.executable, "-c", code], env=environ, check=True)
    for rank in ("9", "10"):
        labels = {"run_id": "7", "rank": rank}
        assert registry.get_sample_value("mlbench_worker_info", {"pod": "w-3", **labels}) == 1
        assert registry.get_sample_value("mlbench_worker_running", labels) == 1
        assert registry.get_sample_value("mlbench_worker_steps_total", labels) == 3
    ranks = {s.labels.get("rank") for family in registry.collect() for s in family.samples}
    assert ranks == {None, "9", "10"}
