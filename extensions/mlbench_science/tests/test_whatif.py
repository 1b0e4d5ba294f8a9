"""Predictions of ``mlbench whatif``, compared with archived runs that made the change."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

import pytest

from mlbench import ApiClient, MLBenchError
from mlbench.archive import RUN, bundle, opened
from mlbench.contract.records import Run
from mlbench.contract.results import Goodput, RankResult, Result, Straggler, Stragglers
from mlbench.local.network import probe
from mlbench_science.whatif import (
    Link,
    Measured,
    Prediction,
    with_bandwidth,
    with_exchange,
    with_workers,
    without_phase,
    without_rank,
)
from tests.mlbench.cli.conftest import Mlbench
from tests.support.known import known
from tests.support.stacks import run_to_end

_ARCHIVES = Path(__file__).parents[3] / "docs" / "archives"
_UNLIMITED, _SLOWER = 999.0, (5.0, 20.0, 80.0, 320.0)


@cache
def archived(name: str) -> Sequence[Measured]:
    """Return the counted runs of an archived set."""
    file, runs = _ARCHIVES / f"{name}.mlbench", []
    run_set = known(bundle.read_set(file))
    counting = {trial.run_id for slot in run_set.slots for trial in slot.trials if trial.counts}
    with TemporaryDirectory() as folder:
        for path in bundle.archives_in(file, Path(folder)):
            with opened(path) as archive:
                document = archive.document(RUN)
            run = Run.from_fields(document["run"])
            if run.id in counting:
                runs.append(Measured(run, Result.from_fields(document["result"])))
    return runs


@cache
def exchanges() -> Mapping[tuple[str, float], Sequence[Measured]]:
    """Return the runs of the exchange sweep by algorithm and bandwidth, the fastest first."""
    groups = defaultdict(list)
    for measured in archived("results-exchanges"):
        groups[measured.exchange, known(measured.run.max_bandwidth)].append(measured)
    return {
        group: sorted(runs, key=lambda measured: measured.step_seconds)
        for group, runs in groups.items()
    }


def middle(exchange: str, mbit: float) -> Measured:
    """Return the run with the median step time of the five repeats."""
    return exchanges()[exchange, mbit][2]


def changed(measured: Measured, **result: Any) -> Measured:
    return replace(measured, result=replace(measured.result, **result))


def ring(workers: int, step: float, communication: Sequence[float]) -> Measured:
    """Return a command run with these seconds of communication per step for each rank."""
    ranks = tuple(
        RankResult(rank, 1000, None, 1000 * step, step, step - spent, None, phases, None)
        for rank, spent in enumerate(communication)
        for phases in [{"communication": 1000 * spent}]
    )
    measured = middle("ddp", _UNLIMITED)
    run = replace(measured.run, num_workers=workers, benchmark="", settings={})
    more: dict[str, Any] = {"world_size": workers, "num_workers": workers, "benchmark": ""}
    more |= {"goodput": None, "stragglers": None, "bytes_sent_per_step": None}
    return changed(replace(measured, run=run), ranks=ranks, step_seconds=step, **more)


def error(prediction: Prediction, measured: Measured) -> float:
    return prediction.seconds / measured.step_seconds - 1


def test_an_unlimited_run_predicts_step_times_at_four_bandwidths() -> None:
    errors, misses = {}, []
    for exchange in {exchange for exchange, _ in exchanges()}:
        for mbit in _SLOWER:
            unlimited, measured = middle(exchange, _UNLIMITED), middle(exchange, mbit)
            prediction = with_bandwidth(unlimited, Link(_UNLIMITED), Link(mbit))
            errors[exchange, mbit] = abs(error(prediction, measured))
            if not prediction.low <= measured.step_seconds <= prediction.high:
                misses.append((exchange, mbit))
    assert len(errors) == 32
    assert median(errors.values()) <= 0.05
    # Messages slightly larger than the limiter's queue cause the largest errors, at 5 Mbit/s.
    assert sorted(errors.values())[-6] <= 0.16
    assert max(errors.values()) <= 0.40
    assert max(value for (_, mbit), value in errors.items() if mbit >= 80) <= 0.12
    assert misses == []


def test_intervals_cover_most_single_runs() -> None:
    inside = [
        prediction.low <= measured.step_seconds <= prediction.high
        for exchange in {exchange for exchange, _ in exchanges()}
        for mbit in _SLOWER
        for unlimited in exchanges()[exchange, _UNLIMITED]
        for prediction in [with_bandwidth(unlimited, Link(_UNLIMITED), Link(mbit))]
        for measured in exchanges()[exchange, mbit]
    ]
    assert len(inside) == 32 * 25
    assert sum(inside) / len(inside) >= 0.83


def test_measured_message_times_replace_the_estimate() -> None:
    sent = 38_626.0
    times = {"all_gather": [(1e4, 0.02), (65_536, 0.2), (131_072, 0.4)]}
    estimated, measured = Link(5.0), Link(5.0, times)
    wire = sent * (1514 + 33) / 1448 * 8 / 5e6
    # Both sizes exceed the limiter's queue of 34 kB. The first measured size does not.
    assert estimated.seconds("all_gather", sent).seconds == pytest.approx(1.44 * wire)
    rate = 0.2 / (65_536 * 1547 / 1448 * 8 / 5e6)
    assert measured.seconds("all_gather", sent).seconds == pytest.approx(rate * wire)
    # An operation that was not measured is estimated.
    assert measured.seconds("all_reduce", sent) == estimated.seconds("all_reduce", sent)
    # Sizes between two measured ones are interpolated.
    between = measured.seconds("all_gather", 98_304).seconds
    assert between == pytest.approx(0.3, rel=0.01)


def test_a_faster_network_does_not_shorten_computing() -> None:
    slow = middle("ddp", 80.0)
    prediction = with_bandwidth(slow, Link(80.0), Link(_UNLIMITED))
    fast = middle("ddp", _UNLIMITED).step_seconds
    assert prediction.low <= fast <= prediction.high
    assert prediction.seconds == pytest.approx(fast, rel=0.3)


def test_another_exchange_uses_the_computing_of_its_reference_run() -> None:
    reference = middle("powersgd", _UNLIMITED)
    prediction = with_exchange(reference, Link(_UNLIMITED), Link(20.0))
    assert abs(error(prediction, middle("powersgd", 20.0))) <= 0.05
    assert prediction.basis[0].startswith(
        f"Computing and bytes are those of run {reference.run.id}"
    )


def test_one_worker_is_predicted_from_two() -> None:
    [alone] = archived("results-cifar10-alone")
    for measured in archived("results-cifar10"):
        prediction = with_workers(measured, 1, Link(None))
        assert abs(error(prediction, alone)) <= 0.08
        assert prediction.low <= alone.step_seconds <= prediction.high
    # Workers share a batch of digits, and computing half a batch takes more than half the time.
    digits = archived("results-digits")
    one = median(m.step_seconds for m in digits if m.run.num_workers == 1)
    for measured in digits:
        if measured.run.num_workers == 2:
            prediction = with_workers(measured, 1, Link(None))
            assert prediction.low <= one <= prediction.high


def test_communication_with_more_workers_follows_the_ring() -> None:
    # Communication takes 20 ms of a step of 100 ms, a quarter of it waiting for the late rank.
    two = ring(2, step=0.1, communication=(0.025, 0.015))
    prediction = with_workers(two, 4, Link(None))
    # Each rank sends 1.5 times the bytes, in three times as many messages.
    assert prediction.seconds == pytest.approx(0.08 + 2.25 * 0.015 + math.sqrt(3) * 0.005)
    assert prediction.low == pytest.approx(0.9 * (0.08 + 1.5 * 0.015 + 0.005))
    assert prediction.high == pytest.approx(1.1 * (0.08 + 3 * 0.015 + 3 * 0.005))


def test_communication_with_fewer_workers_follows_the_ring() -> None:
    four = ring(4, step=0.1, communication=(0.025, 0.015, 0.02, 0.02))
    prediction = with_workers(four, 2, Link(None))
    # Each rank sends two thirds of the bytes, in a third of the messages.
    assert prediction.seconds == pytest.approx(0.08 + 0.5 * 0.015 + math.sqrt(1 / 3) * 0.005)
    assert prediction.low == pytest.approx(0.9 * (0.08 + (0.015 + 0.005) / 3))
    assert prediction.high == pytest.approx(1.1 * (0.08 + 2 / 3 * 0.015 + 0.005))


def test_more_workers_do_not_wait_longer_for_a_straggler() -> None:
    late = Straggler(1, 30.0, {}, 1.4)
    two = ring(2, step=0.1, communication=(0.035, 0.005))
    two = changed(two, stragglers=Stragglers(1.4, (late,), "", named=1))
    prediction = with_workers(two, 4, Link(None))
    # Rank 1 computes for 95 ms. The exchange takes 5 ms on all ranks.
    assert prediction.seconds == pytest.approx(0.095 + 2.25 * 0.005)


def test_waits_are_taken_from_the_time_breakdown() -> None:
    # The ranks are late in turns, so both communicate for 20 ms a step.
    in_turns = ring(2, step=0.1, communication=(0.02, 0.02))
    assert in_turns.waiting == 0.0
    goodput = Goodput(0.9, {"waiting": 15.0, "communication": 5.0}, ())
    in_turns = changed(in_turns, goodput=goodput)
    assert in_turns.waiting == pytest.approx(0.015)
    prediction = without_phase(in_turns, "communication")
    assert prediction.seconds == pytest.approx(0.095)


def test_the_prediction_without_a_straggler_matches_the_findings() -> None:
    late = Straggler(1, 28.0, {}, 1.6)
    stragglers = Stragglers(1.6, (late, replace(late, rank=0, speedup_without=1.0)), "", 1)
    measured = changed(ring(2, 0.08, (0.04, 0.002)), stragglers=stragglers)
    prediction = without_rank(measured, 1)
    assert prediction.seconds == pytest.approx(0.05)
    # The other rank computes for 40 ms and exchanges for 2 ms, so it waits for 8 ms in turns.
    assert (prediction.low, prediction.high) == pytest.approx((0.045, 0.055 + 0.008))
    assert without_rank(measured, 0).seconds == pytest.approx(0.08)
    with pytest.raises(MLBenchError, match=r"--without: rank not found \(got 2\). Choose one of 0"):
        without_rank(measured, 2)


def test_another_rank_may_be_the_slowest_without_a_phase() -> None:
    phases = ({"data": 40.0, "forward": 45.0}, {"data": 1.0, "forward": 60.0})
    ranks = tuple(
        RankResult(rank, 1000, None, 90.0, 0.09, sum(of_rank.values()) / 1000, 0.1, of_rank, None)
        for rank, of_rank in enumerate(phases)
    )
    measured = changed(middle("ddp", _UNLIMITED), ranks=ranks, step_seconds=0.09)
    # Rank 0 computes for 85 ms. Without its data, rank 1 is the slowest with 60 ms.
    prediction = without_phase(measured, "data")
    # A step takes 5 ms longer than rank 0 alone because rank 1 is sometimes later.
    in_turns = 0.005 * (1 - (40 + 1) / (85 + 61))
    assert prediction.seconds == pytest.approx(0.06 + in_turns)
    assert (prediction.low, prediction.high) == pytest.approx((0.9 * 0.06, 1.1 * 0.089))
    with pytest.raises(MLBenchError, match=r"--free: .* \(got 'evaluation'\). Choose one of data"):
        without_phase(measured, "evaluation")


def test_a_prediction_without_its_measurements_is_refused() -> None:
    measured = middle("ddp", _UNLIMITED)
    run = measured.run
    links = (Link(_UNLIMITED), Link(20.0))
    for refused, match in (
        (changed(measured, bytes_sent_per_step=None), "did not record the bytes"),
        (replace(measured, run=replace(run, settings={"exchange": "per-layer"})), "'per-layer'"),
        (replace(measured, run=replace(run, loss_percent=1.0)), r"lost packets .*--loss 1%"),
        (changed(measured, step_seconds=None), "has no step time"),
    ):
        with pytest.raises(MLBenchError, match=match):
            with_bandwidth(refused, *links)
    one = next(m for m in archived("results-digits") if m.run.num_workers == 1)
    with pytest.raises(MLBenchError, match="has one worker"):
        with_workers(one, 2, Link(None))
    jax = next(
        m
        for m in archived("results-frameworks")
        if known(m.run.settings)["framework"] == "jax" and m.run.num_workers == 2
    )
    with pytest.raises(MLBenchError, match="did not measure its communication"):
        with_workers(jax, 4, Link(None))
    with pytest.raises(MLBenchError, match="who waited for whom is not known"):
        without_rank(changed(measured, stragglers=None), 0)


@pytest.fixture(scope="module")
def imported(client: ApiClient) -> Iterator[Mapping[str, Run]]:
    """Imported runs of two exchange algorithms, by algorithm."""
    runs = {}
    with ZipFile(_ARCHIVES / "results-exchanges.mlbench") as archives:
        for exchange in ("ddp", "powersgd"):
            unlimited = middle(exchange, _UNLIMITED).run
            name = f"{unlimited.name}-{unlimited.id}.mlbench"
            answer = client.import_archive(BytesIO(archives.read(name)))
            runs[exchange] = client.get_run(answer.value.run.id).result().value
    yield runs
    for run in runs.values():
        client.delete_run(run.id).result()


def test_the_command_prints_a_prediction_and_its_basis(
    mlbench: Mlbench, imported: Mapping[str, Run]
) -> None:
    ddp, powersgd = str(imported["ddp"].id), str(imported["powersgd"].id)
    lines = mlbench("whatif", ddp, "--bandwidth", "20").output.splitlines()
    assert re.fullmatch(
        r"616 ms a step \(\d+ ms to [\d.]+ m?s\), instead of 42.1 ms: 0.07x speedup", lines[0]
    )
    assert lines[1].startswith("  1 x all_reduce of 1,232,296 bytes a step and rank; ")
    assert "no quiet run of `communication`" in lines[2]
    answer = mlbench("whatif", ddp, "--exchange", "powersgd", "--json").json
    assert answer["predicted"]["basis"][0].endswith(f"run {powersgd} (powersgd).")
    assert answer["predicted"]["seconds"] == pytest.approx(0.03, abs=0.005)
    assert mlbench("whatif", ddp, "--free", "forward", "--json").json["run_id"] == int(ddp)
    assert "Each worker" not in mlbench("whatif", ddp, "--workers", "4").output
    assert mlbench("whatif", ddp, "--without", "rank:1").code == 0


def test_the_command_refuses_invalid_arguments(
    mlbench: Mlbench, imported: Mapping[str, Run], finished: Run
) -> None:
    ddp = str(imported["ddp"].id)
    for arguments, problem in (
        ((ddp,), "exactly one is required (got 0)"),
        ((ddp, "--free", "data", "--workers", "4"), "exactly one is required (got 2)"),
        ((ddp, "--without", "3"), "must be a rank (got '3'). Write, for example, rank:3."),
        ((ddp, "--exchange", "gossip"), "not known (got 'gossip'). Choose one of ddp, "),
        ((ddp, "--exchange", "topk"), "--workers 2 --set exchange=topk` first."),
        ((str(finished.id), "--bandwidth", "5"), "did not record the bytes that it sends."),
        ((str(finished.id), "--workers", "4"), "did not measure its communication."),
    ):
        assert problem in mlbench("whatif", *arguments).refusal


@pytest.mark.skipif(bool(probe().no_bandwidth), reason=probe().no_bandwidth)
@pytest.mark.slow
def test_a_communication_run_with_the_same_bandwidth_is_used(
    mlbench: Mlbench, client: ApiClient, imported: Mapping[str, Run]
) -> None:
    sizes = {"min_bytes": "65536", "max_bytes": "1048576", "factor": "16", "rounds": "5"}
    run = client.create_run(
        "link", 2, num_cpus=None, max_bandwidth=100, benchmark="communication", args=sizes
    )
    ended = run_to_end(client, run.result().value)
    assert ended.state == "FINISHED", ended.reason
    arguments = ("whatif", str(imported["ddp"].id), "--bandwidth", "100")
    predicted = mlbench(*arguments, "--json").json["predicted"]
    client.delete_run(ended.id).result()
    if ended.disturbed:
        assert "no quiet run" in predicted["basis"][1]
    else:
        assert (
            predicted["basis"][1] == f"Times of messages are from run {ended.id} (communication)."
        )
    assert 0.1 < predicted["seconds"] < 0.3
