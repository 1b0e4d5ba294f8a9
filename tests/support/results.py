"""Sample runs, results and comparisons."""

from array import array
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

from mlbench import archive
from mlbench.archive import Piece, SeriesName
from mlbench.contract.comparisons import Comparison, Difference, Value
from mlbench.contract.records import GitState, Limits, Machine, Manifest, Run, Target, Versions
from mlbench.contract.results import AccuracyAfterTime, Cost, Curve, Result, TimeToTarget
from mlbench.evaluation.comparison import compare, judge
from tests.support.known import known

METRIC = "val_global_Prec@1"
TARGET = Target(METRIC, 97.0)
_EPOCHS = 12
# Share of the training time spent in each phase.
_PHASES = {"data": 0.02, "forward": 0.3, "backward": 0.4, "communication": 0.05}
_PHASES |= {"optimizer": 0.03, "metrics": 0.01, "evaluation": 0.1, "other": 0.04}


def make_run(**changes: Any) -> Run:
    """Return run 7, which FINISHED after a minute, with these fields replaced."""
    fields: dict[str, Any] = {
        **{"id": 7, "name": "first", "state": "FINISHED", "reason": "", "num_workers": 2},
        **{"attempt": 1, "target": None, "delivery": None, "ranks": ()},
        "created_at": "2018-08-03T09:21:29.347000Z",
        "started_at": "2018-08-03T09:21:30.000000Z",
        "finished_at": "2018-08-03T09:22:30.000000Z",
    }
    return Run(**(fields | changes))


def make_result(run_id: int, workers: int = 1, *, repeat: int = 1) -> Result:
    """Return a run that reached its target: the more workers, the sooner."""
    epoch_seconds = 0.8 / workers**0.8 * (1 + 0.03 * repeat)
    times = tuple(epoch_seconds * (epoch + 1) for epoch in range(_EPOCHS))
    values = tuple(99.0 - 80.0 * 0.62**epoch for epoch in range(_EPOCHS))
    reached = next(i for i, value in enumerate(values) if value >= TARGET.value)
    training = times[-1]
    phases = {name: share * training for name, share in _PHASES.items()}
    return Result(
        run_id=run_id,
        name=f"digits-w{workers}-r{repeat}",
        benchmark="digits",
        state="FINISHED",
        num_workers=workers,
        division="closed",
        rule_violations=(),
        target=TARGET,
        time_to_target=TimeToTarget(times[reached], times[reached] * 1.1 + 4.0),
        accuracy_after_time=AccuracyAfterTime(7200.0, values[-1], training, "training"),
        last_value=values[-1],
        best_value=max(values),
        epochs=_EPOCHS,
        samples=1437.0 * _EPOCHS,
        training_seconds=training,
        wall_seconds=training * 1.1 + 4.0,
        samples_per_second=1437.0 * _EPOCHS / training,
        phases=phases | {"communication": workers * phases["communication"]},
        communication_share=0.05 * workers,
        bytes_sent_per_step=(workers - 1) * 1000.0,
        cost=Cost(workers * (training + 5.0), workers * times[reached], None, None, None),
        energy_joules=None,
        disturbed=(),
        contention_share=None,
        interferences=(),
        curve=Curve(tuple(time * 1.1 + 4.0 for time in times), times, values),
    )


def make_unreached(run_id: int, workers: int = 1, *, repeat: int = 1) -> Result:
    result = make_result(run_id, workers, repeat=repeat)
    assert result.curve is not None
    values = tuple(value * 0.9 if value else None for value in result.curve.values)
    return replace(
        result,
        time_to_target=None,
        last_value=values[-1],
        best_value=values[-1],
        curve=replace(result.curve, values=values),
    )


def make_aimless(run_id: int, workers: int = 1, *, repeat: int = 1) -> Result:
    """Return a run of user code that has no target."""
    return replace(
        make_result(run_id, workers, repeat=repeat),
        benchmark="",
        division="open",
        target=None,
        time_to_target=None,
        accuracy_after_time=None,
        last_value=None,
        best_value=None,
        curve=None,
    )


def make_comparison(results: list[Result]) -> Comparison:
    """Return the comparison of runs that differ only in their number of workers."""
    same = {"data": "digits", "batch_size": "96", "num_cpus": "any", "max_bandwidth": "any"}
    same |= {"latency_ms": "none", "loss_percent": "none", "faults": "none"}
    facts = {result.run_id: {**same, "num_workers": str(result.num_workers)} for result in results}
    return compare(results, facts)


def judged(comparison: Comparison) -> Comparison:
    """Return a modified comparison with its findings computed again."""
    return replace(comparison, findings=judge(comparison))


def make_matrix(workers: tuple[int, ...] = (1, 2, 4), repeats: int = 5) -> Comparison:
    """Return the comparison at the end of ``mlbench bench``."""
    cells = [(count, repeat) for repeat in range(1, repeats + 1) for count in workers]
    return make_comparison(
        [make_result(i, count, repeat=repeat) for i, (count, repeat) in enumerate(cells, 1)]
    )


def make_sweep(workers: tuple[int, ...] = (2,), repeats: int = 3) -> Comparison:
    """Return a sweep of two exchanges and three bandwidths. They differ more at low bandwidth."""
    results: list[Result] = []
    facts: dict[int, dict[str, str]] = {}
    for repeat, exchange, limit, count in product(
        range(1, repeats + 1), ("flat", "topk"), ("5", "20", "100"), workers
    ):
        run_id = len(results) + 1
        slower = 1 + (20 if exchange == "flat" else 3) / float(limit)
        result = make_result(run_id, count, repeat=repeat)
        assert result.time_to_target is not None
        seconds = known(result.time_to_target.training_seconds) * slower
        reached = replace(result.time_to_target, training_seconds=seconds)
        rate = known(result.samples_per_second) / slower
        swept = {"exchange": exchange, "bandwidth": limit}
        results.append(
            replace(result, time_to_target=reached, samples_per_second=rate, swept=swept)
        )
        facts[run_id] = {"num_workers": str(count), "exchange": exchange, "max_bandwidth": limit}
        facts[run_id] |= {"target": "acc", "data": "digits", "batch_size": "96"}
    return compare(results, facts)


def make_difference(
    name: str, breaks: Literal["yes", "no", "unknown", "scaling", "learning"], text: str
) -> Difference:
    return Difference(name, breaks, (Value("a", (1,)), Value("b", (2,))), text)


def make_manifest(run: Run, result: Result) -> Manifest:
    """Return the manifest of a run on one machine."""
    processor = Machine(ranks=(0,), cpu_model="AMD EPYC", cpus=2, git=GitState("c0ffee"))
    return Manifest(
        **{name: getattr(run, name) for name in ("name", "benchmark", "image", "command", "args")},
        run_id=run.id,
        division=result.division,
        rule_violations=result.rule_violations,
        working_dir=None,
        run_all_nodes=True,
        backend=run.backend,
        seed=run.seed,
        settings={"batch_size": 128},
        target=result.target,
        data={},
        limits=Limits(
            num_workers=run.num_workers, light_target=False, max_restarts=0, deadline_seconds=None
        ),
        attempts=1,
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        versions=Versions("0.1.0"),
        machines=(processor,),
        ranks=(),
    )


def make_archive(folder: Path, result: Result, **run_fields: Any) -> Path:
    """Write an archive of a run with this result and one series."""
    defaults = {"id": result.run_id, "name": result.name, "benchmark": result.benchmark}
    defaults |= {"num_workers": result.num_workers, "backend": "gloo"}
    run = make_run(**defaults | run_fields)
    records = {"run": run, "manifest": make_manifest(run, result), "result": result}
    fields: dict[str, Any] = {name: record.to_fields() for name, record in records.items()}
    fields["events"] = []
    losses = Piece(array("q", [1, 2]), array("d", [0.5, 0.25]))
    file = folder / f"{result.run_id}{archive.SUFFIX}"
    archive.write(
        file, {archive.RUN: fields, archive.ROWS: {}}, [(SeriesName("loss", "0"), [losses])]
    )
    return file
