"""The agent's /metrics: values of a rank, without forged series of its process."""

import os
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from mlbench.contract import names
from mlbench.tracking.totals import TotalsFile
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.metrics_endpoint import WorkerCollector
from mlbench_worker.agent.training_process import Exit

_RANK = {"run_id": "7", "rank": "1"}
_FORGED = 1e9


@pytest.fixture
def collector() -> WorkerCollector:
    return WorkerCollector("w-3")


@pytest.fixture
def registry(collector: WorkerCollector) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(collector)
    return registry


@pytest.fixture
def shown(
    collector: WorkerCollector, registry: CollectorRegistry, attempt: Attempt
) -> CollectorRegistry:
    """The registry while the worker runs a rank."""
    collector.show(attempt)
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
    collector: WorkerCollector, shown: CollectorRegistry, attempt: Attempt
) -> None:
    assert info(shown) == {"pod": "w-3", **_RANK}
    assert shown.get_sample_value("mlbench_worker_running", _RANK) == 1
    attempt._note_exit(Exit(0, 1.0))
    assert shown.get_sample_value("mlbench_worker_running", _RANK) == 0
    collector.show_idle()
    assert info(shown) == {"pod": "w-3", "run_id": "", "rank": ""}
    assert shown.get_sample_value("mlbench_worker_running", _RANK) == 0


def run_python(attempt: Attempt, *arguments: str) -> None:
    """Run a Python process with the environment of the attempt's rank."""
    rank = {names.ENV_RUN_ID: "7", names.ENV_MULTIPROC_DIR: str(attempt.counters)}
    subprocess.run([sys.executable, *arguments], env={**os.environ, **rank}, check=True)


def totals_file(attempt: Attempt, rank: int | str, pid: int = 5) -> Path:
    return Path(names.totals_file(str(attempt.file("metrics")), rank, pid))


def write_totals(attempt: Attempt, rank: int | str, pid: int = 5) -> None:
    """Write the totals of 3 steps, like a rank's process."""
    totals = TotalsFile(totals_file(attempt, rank, pid))
    totals.observe_step(0.002)
    totals.publish(3, 30, {"forward": 1.5})


def test_the_totals_of_a_rank_are_those_of_its_processes(
    shown: CollectorRegistry, attempt: Attempt
) -> None:
    for pid in (5, 6):
        write_totals(attempt, 1, pid)
    value = shown.get_sample_value
    assert value("mlbench_worker_steps_total", _RANK) == 6
    assert value("mlbench_worker_samples_total", _RANK) == 60
    assert value("mlbench_worker_phase_seconds_total", {**_RANK, "phase": "forward"}) == 3.0
    assert value("mlbench_worker_step_seconds_sum", _RANK) == 0.004
    assert value("mlbench_worker_step_seconds_count", _RANK) == 2
    for bound, steps in {"0.001": 0, "0.0025": 2, "1.0": 2, "+Inf": 2}.items():
        assert value("mlbench_worker_step_seconds_bucket", {**_RANK, "le": bound}) == steps
    progress_at = value("mlbench_worker_progress_timestamp_seconds", _RANK)
    assert progress_at == pytest.approx(time.time(), abs=60)


def test_invalid_totals_files_are_ignored(shown: CollectorRegistry, attempt: Attempt) -> None:
    write_totals(attempt, 1)
    for rank, content in enumerate([b"", b"\xff" * 10, b"\xff" * 1000], 2):
        totals_file(attempt, rank).write_bytes(content)
    os.mkfifo(totals_file(attempt, 5))
    totals_file(attempt, 6).symlink_to("/dev/zero")
    text = generate_latest(shown).decode()
    assert 'mlbench_worker_steps_total{rank="1",run_id="7"} 3.0' in text
    steps = {line.split()[-1] for line in text.splitlines() if line.startswith("mlbench_worker_st")}
    assert steps <= {"0.0", "1.0", "3.0", "0.002"}


def test_a_worker_with_several_processes_shows_all_their_ranks(
    shown: CollectorRegistry, attempt: Attempt
) -> None:
    for rank in ("10", "9", "other", "-1"):
        write_totals(attempt, rank)
    for rank in ("9", "10"):
        labels = {"run_id": "7", "rank": rank}
        assert shown.get_sample_value("mlbench_worker_info", {"pod": "w-3", **labels}) == 1
        assert shown.get_sample_value("mlbench_worker_running", labels) == 1
        assert shown.get_sample_value("mlbench_worker_steps_total", labels) == 3
    ranks = {s.labels.get("rank") for family in shown.collect() for s in family.samples}
    assert ranks == {None, "9", "10"}


_MANY = """
from prometheus_client import Gauge
many = Gauge("many", "", ["n"], multiprocess_mode="max")
for n in range(%d):
    many.labels(str(n)).set(n)
"""


def test_forged_series_and_irregular_files_are_left_out(
    shown: CollectorRegistry, attempt: Attempt, caplog: pytest.LogCaptureFixture
) -> None:
    run_python(attempt, "-m", "tests.worker.agent.publishing")
    began = time.monotonic()
    forged = {s.name for family in shown.collect() for s in family.samples if s.value == _FORGED}
    assert forged == {"of_the_user"}
    text = generate_latest(shown).decode()
    assert time.monotonic() - began < 1, "reading waited for a named pipe"
    assert "2000000" not in text
    assert 'pod="forged"' not in text
    assert caplog.text.count("series of run-7-") == 1


def test_a_million_series_do_not_displace_the_agents_own(
    shown: CollectorRegistry, attempt: Attempt
) -> None:
    write_totals(attempt, 1)
    run_python(attempt, "-c", _MANY % 20_000)
    # This file is ten times as large as the limit. Writing a million series would take minutes.
    large = attempt.counters / "gauge_max_99.db"
    [written] = attempt.counters.glob("gauge_max_*.db")
    large.write_bytes((200 << 20).to_bytes(4, "little") + written.read_bytes()[4:])
    os.truncate(large, 201 << 20)
    began = time.monotonic()
    text = generate_latest(shown).decode()
    assert time.monotonic() - began < 2
    assert 'mlbench_worker_running{rank="1",run_id="7"} 1.0' in text
    assert 'mlbench_worker_steps_total{rank="1",run_id="7"} 3.0' in text
    assert len(text.splitlines()) < 2500


def test_corrupt_files_do_not_hide_the_totals(shown: CollectorRegistry, attempt: Attempt) -> None:
    write_totals(attempt, 1)
    for used, byte in product([0, 3, 100, 2**31 - 1, 2**32 - 1], [b"\x00", b"\xff", b"{"]):
        for kind in ("counter", "gauge_max", "gauge_nonsense", "histogram", "summary"):
            path = attempt.counters / f"{kind}_1.db"
            path.write_bytes(used.to_bytes(4, "little") + byte * 5000)
        text = generate_latest(shown).decode()
        assert 'mlbench_worker_steps_total{rank="1",run_id="7"} 3.0' in text, (used, byte)


def test_a_missing_folder_does_not_hide_the_agents_series(
    shown: CollectorRegistry, attempt: Attempt
) -> None:
    attempt.counters.rmdir()
    assert "mlbench_worker_running" in generate_latest(shown).decode()
