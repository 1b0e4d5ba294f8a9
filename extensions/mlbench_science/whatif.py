"""``mlbench whatif``: the step time that a run would have after one change, with an interval.

A step is computing, loading data, and the communication that computing does not hide. A prediction
replaces one part of the measured step time and keeps the others. The number of epochs to the target
is not predicted: it depends on the training, not on the machine.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean
from typing import Annotated

import typer

from mlbench.cli.common import JsonOption, RunArgument, UsageError, open_run, out, print_json
from mlbench.cli.live import patiently
from mlbench.client import ApiClient
from mlbench.contract import figures, names
from mlbench.contract.errors import MLBenchError
from mlbench.contract.humanize import count
from mlbench.contract.records import Run
from mlbench.contract.results import RankResult, Result
from mlbench.contract.shaping import BURST_PACKETS
from mlbench.evaluation.findings import share_of_data

# A frame of 1,514 bytes carries 1,448 bytes of a TCP stream. Acknowledgements of the opposite
# stream take 66 bytes per two frames, because both ranks send at once.
_FRAME_BYTES = 1514
_HEADERS, _HEADERS_AND_ACKNOWLEDGEMENTS = 1514 / 1448, (1514 + 66 / 2) / 1448
# The limiter drops packets that would wait longer: ``latency`` in mlbench.contract.shaping.
_QUEUE_SECONDS = 0.05
# Linux resends a lost packet after this time if no later packet reveals the loss.
_RESEND_SECONDS = 0.2
# Time of a message longer than the limiter's queue, relative to the same message without losses.
# These are means of four runs of ``communication`` (max_bytes=1048576) on a machine with two cores:
# three at 5 Mbit/s, one at 20. The limit of 20 is from the published exchange sweep, in which long
# messages at 80 Mbit/s were not delayed as much. No quiet run of ``communication`` confirms it.
_LOSSES, _LOSSES_MBIT = {"all_reduce": 1.11, "all_gather": 1.44}, 20
_REPEATS = 0.1
"""Typical difference of step times between equal runs of the published exchange sweep."""
_MEASURED, _ESTIMATED = 0.25, 0.5
"""Shares by which a message may take longer than a measured, or than an estimated, time.

They were chosen so that the intervals contain the median runs of the published exchange sweep.
"""

_OPERATIONS: Mapping[str, tuple[str, int]] = {
    "ddp": ("all_reduce", 1),
    "flat": ("all_reduce", 1),
    "local-sgd": ("all_reduce", 1),
    "randomk": ("all_reduce", 1),
    "powersgd": ("all_reduce", 2),
    "signsgd": ("all_gather", 1),
    "topk": ("all_gather", 1),
    "qsgd": ("all_gather", 1),
    # Two neighbours send to each other at the same time, like the ranks of an all-gather.
    "decentralized": ("all_gather", 1),
    "choco": ("all_gather", 1),
}
"""Collective operation of each exchange algorithm, and its number of messages per exchange."""

_BATCH_PHASES = ("data", "forward", "backward", "compute", "metrics")
"""Phases whose time depends on the number of samples."""
_SAME_COMPUTING = ("batch_size", "threads", "precision", "device_name", "channels_last", "compile")
"""Settings in which two runs must be equal to compute equally long."""


@dataclass(frozen=True)
class Prediction:
    """A predicted duration, with its interval."""

    seconds: float
    """Predicted duration in seconds."""
    low: float
    """Lower end of the prediction, in seconds."""
    high: float
    """Upper end of the prediction, in seconds."""
    basis: tuple[str, ...] = ()
    """Measurements and assumptions that the prediction is based on, a sentence each."""


@dataclass(frozen=True)
class Measured:
    """A measured run."""

    run: Run
    result: Result

    @property
    def exchange(self) -> str:
        """Exchange algorithm; for your own code, all-reduce as in PyTorch's DDP."""
        return str((self.run.settings or {}).get("exchange", "ddp"))

    @property
    def step_seconds(self) -> float:
        """Mean time per step in seconds. MLBenchError if it was not recorded."""
        if self.result.step_seconds is None:
            raise MLBenchError(
                f"RUN: run {self.run.id} has no step time. Record steps with a Tracker, or wait "
                "until the run has made some steps."
            )
        return self.result.step_seconds

    @property
    def messages(self) -> tuple[str, float]:
        """Operation of the exchange, and its number of messages per step.

        MLBenchError if they are not known.
        """
        settings = self.run.settings or {}
        if self.exchange not in _OPERATIONS:
            raise MLBenchError(
                f"RUN: run {self.run.id} has an exchange whose messages are not known (got "
                f"{self.exchange!r}). Choose a run with one of {', '.join(_OPERATIONS)}."
            )
        operation, number = _OPERATIONS[self.exchange]
        if self.exchange == "decentralized" and settings.get("topology") == "complete":
            operation = "all_reduce"
        if self.exchange == "local-sgd":
            return operation, number / float(settings.get("local_steps") or 1)
        return operation, number

    def per_step(self, phase: str) -> float:
        """Return the mean time of a phase per step, in seconds."""
        return fmean(phase_seconds(rank, phase) for rank in self.result.ranks)

    @property
    def waiting(self) -> float:
        """Mean time per step that a rank waits for later ranks, in seconds.

        It is a part of the phase communication. The time breakdown compares single steps. Without
        its figures, the rank that communicates least is taken to wait for no other.
        """
        mean = self.per_step("communication")
        least = min(phase_seconds(rank, "communication") for rank in self.result.ranks)
        seconds = self.result.goodput.seconds if self.result.goodput else {}
        waited, exchanged = seconds.get("waiting", 0.0), seconds.get("communication", 0.0)
        return max(mean - least, mean * waited / ((waited + exchanged) or 1.0))


def phase_seconds(rank: RankResult, phase: str) -> float:
    """Return the time of a phase per step of a rank, in seconds."""
    return rank.phases.get(phase, 0.0) / (rank.steps or 1)


@dataclass(frozen=True)
class Link:
    """The network of a worker, with measured times if the pool has run ``communication``."""

    mbit: float | None
    """Maximum bandwidth in Mbit/s; None if it is not limited."""
    times: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    """Measured messages by operation, shortest first: bytes that a rank sends, and seconds."""
    source: str = ""
    """Run that measured the times; empty without one."""

    def seconds(self, operation: str, sent: float) -> Prediction:
        """Return the time that an operation takes because of the limit, without its latency."""
        if self.mbit is None:
            return Prediction(0.0, 0.0, 0.0)
        rate, burst = self.mbit * 1e6 / 8, BURST_PACKETS * _FRAME_BYTES
        queue = _QUEUE_SECONDS * rate + burst
        is_lossy = sent * _HEADERS > queue
        # The burst after a pause passes at once, unless the rank has just sent something else.
        least = max(0.0, sent * _HEADERS - burst) / rate
        expected = sent * _HEADERS_AND_ACKNOWLEDGEMENTS / rate
        # Messages with and without losses are too different to interpolate between them.
        measured = [
            (size, seconds / (size * _HEADERS_AND_ACKNOWLEDGEMENTS / rate))
            for size, seconds in self.times.get(operation, ())
            if (size * _HEADERS > queue) == is_lossy
        ]
        if measured:
            expected *= max(1.0, _interpolate(measured, sent))
        elif is_lossy and self.mbit <= _LOSSES_MBIT:
            expected *= _LOSSES[operation]
        doubt = _MEASURED if measured else _ESTIMATED
        high = (1 + doubt) * expected + _RESEND_SECONDS * is_lossy
        return Prediction(expected, least, high)


def _interpolate(points: Sequence[tuple[float, float]], at: float) -> float:
    """Return the value at a position between points; outside, the value of the nearest point."""
    below = [point for point in points if point[0] <= at]
    above = [point for point in points if point[0] > at]
    if not (below and above):
        return (below[-1:] or above[:1])[0][1]
    (left, first), (right, second) = below[-1], above[0]
    return first + (second - first) * (at - left) / (right - left)


def with_bandwidth(measured: Measured, now: Link, then: Link) -> Prediction:
    """Predict the step time with another bandwidth limit, from the bytes sent per step."""
    run, step = measured.run, measured.step_seconds
    sent = measured.result.bytes_sent_per_step
    if not sent:
        raise MLBenchError(
            f"--bandwidth: run {run.id} did not record the bytes that it sends. Choose a run of a "
            "task with the option exchange and two or more workers, or log bytes_sent_per_step."
        )
    if run.loss_percent:
        raise MLBenchError(
            f"--bandwidth: run {run.id} lost packets on purpose (--loss {run.loss_percent:g}%), "
            "and their delay depends on the bandwidth. Choose a run without --loss."
        )
    operation, share = measured.messages
    before, after = (link.seconds(operation, sent / share) for link in (now, then))
    computing = max(0.0, step - measured.per_step("communication"))
    rest, rest_low, rest_high = (
        max(computing, step - share * seconds)
        for seconds in (before.seconds, before.high, before.low)
    )
    text = f"{share:.3g} x {operation} of {sent / share:,.0f} bytes a step and rank"
    # DDP communicates during the backward pass, which may hide some more of it.
    hidden = measured.per_step("backward") if measured.exchange == "ddp" else 0.0
    return Prediction(
        rest + share * after.seconds,
        (1 - _REPEATS) * rest_low + max(0.0, share * after.low - hidden),
        (1 + _REPEATS) * rest_high + share * after.high,
        (
            f"{text}; computing and latency stay as they are.",
            f"Times of messages are from run {then.source}."
            if then.source
            else "Times of messages are estimated: no quiet run of `communication` with this "
            "bandwidth and as many workers is here.",
        ),
    )


def with_exchange(reference: Measured, now: Link, then: Link) -> Prediction:
    """Predict the step time with the exchange of another run, in another network."""
    prediction = with_bandwidth(reference, now, then)
    text = f"Computing and bytes are those of run {reference.run.id} ({reference.exchange})."
    return replace(prediction, basis=(text, *prediction.basis))


def with_workers(measured: Measured, workers: int, link: Link) -> Prediction:
    """Predict the step time on another number of workers, each with cores as now."""
    result, step = measured.result, measured.step_seconds
    size = max(result.world_size, result.num_workers)
    communication = measured.per_step("communication")
    if size == 1 and workers > 1:
        raise MLBenchError(
            f"--workers: run {result.run_id} has one worker, so its communication is not known. "
            "Choose a run with two or more workers."
        )
    if size > 1 and not communication:
        raise MLBenchError(
            f"--workers: run {result.run_id} did not measure its communication. Choose a run "
            "that has the phase communication."
        )
    operation, share = measured.messages
    settings = measured.run.settings or {}
    # Tasks have either option, and report the batch of all workers as batch_size in both cases.
    is_shared = "worker_batch_size" not in settings and bool(result.benchmark)
    computing = sum(map(measured.per_step, _BATCH_PHASES)) if is_shared else 0.0
    scaled = computing * size / workers
    if workers == 1:
        by_bytes = by_latency = 0.0
    elif measured.exchange in {"decentralized", "choco"} and settings.get("topology") == "ring":
        # A rank of a ring has two neighbours at most.
        by_bytes = by_latency = min(workers - 1, 2) / min(size - 1, 2)
    else:
        by_latency = (workers - 1) / (size - 1)
        by_bytes = by_latency * (size / workers if operation == "all_reduce" else 1.0)
    waiting, limited = measured.waiting, 0.0
    if link.mbit and result.bytes_sent_per_step:
        sent = result.bytes_sent_per_step / share
        limited = min(communication - waiting, share * link.seconds(operation, sent).seconds)
    rest = communication - waiting - limited
    # With more ranks, the last one is later. Random delays grow by about the root of the number of
    # ranks less one. A straggler's delay does not grow.
    is_systematic = bool(result.stragglers and result.stragglers.named is not None and workers > 1)
    by_waits = 1.0 if is_systematic else math.sqrt(by_latency)
    base = step - communication - computing + limited * by_bytes
    computings, rests = sorted((computing, scaled)), sorted((by_bytes, by_latency))
    waits = sorted((1.0, by_latency))
    return Prediction(
        base + fmean(computings) + rest * fmean(rests) + waiting * by_waits,
        (1 - _REPEATS) * (base + computings[0] + rest * rests[0] + waiting * waits[0]),
        (1 + _REPEATS) * (base + computings[1] + rest * rests[1] + waiting * waits[1]),
        (
            "The workers share the batch, and a step computes between a fixed time and a time in "
            "proportion to a worker's samples."
            if is_shared
            else "Each worker keeps its batch.",
            "Communication changes as a ring's, between its bytes and its number of messages.",
        ),
    )


def without_rank(measured: Measured, rank: int) -> Prediction:
    """Predict the step time if a rank were as fast as a typical rank, as findings do."""
    stragglers = measured.result.stragglers
    if stragglers is None:
        raise MLBenchError(
            f"--without: who waited for whom is not known in run {measured.run.id}. Choose a run "
            "with two or more ranks that measured their communication."
        )
    speedups = {row.rank: row.speedup_without for row in stragglers.ranks}
    if rank not in speedups:
        ranks = ", ".join(map(str, sorted(speedups)))
        raise MLBenchError(f"--without: rank not found (got {rank}). Choose one of {ranks}.")
    step = measured.step_seconds
    seconds = step / speedups[rank]
    exchanging = measured.per_step("communication") - measured.waiting
    others = [row.compute_seconds or step for row in measured.result.ranks if row.rank != rank]
    # Time per step in which another rank is the last one. It remains after the change.
    in_turns = max(0.0, seconds - exchanging - max(others, default=step))
    low, high = (1 - _REPEATS) * seconds, (1 + _REPEATS) * seconds + in_turns
    return Prediction(seconds, low, high, (f"Rank {rank} becomes as fast as a typical rank.",))


def without_phase(measured: Measured, phase: str) -> Prediction:
    """Predict the step time if a phase took no time.

    The slowest rank decides the time of a step. After the change, it may be another rank. If ranks
    are late in turns, their waits shrink by the phase's share of their own work. Those for data
    shrink by the share that the finding ``data`` assumes.
    """
    step, result = measured.step_seconds, measured.result
    phases = sorted({phase for rank in result.ranks for phase in rank.phases if rank.phases[phase]})
    known = [name for name in phases if name not in names.UNTRAINED]
    if phase not in known:
        raise MLBenchError(
            f"--free: phase not measured in the steps of run {measured.run.id} (got {phase!r}). "
            f"Choose one of {', '.join(known) or 'none: no phases were recorded'}."
        )
    spent = [phase_seconds(rank, phase) for rank in result.ranks]
    exchanging = measured.per_step("communication") - measured.waiting
    if phase == "communication":
        seconds, low, high = step - exchanging, step - min(spent), step - exchanging
    else:
        own = [rank.compute_seconds or step for rank in result.ranks]
        left = max(work - part for work, part in zip(own, spent, strict=True))
        saved = max(own) - left
        # Time per step beyond the slowest rank's own time: sometimes another rank is the last one.
        in_turns = max(0.0, step - exchanging - max(own))
        share = sum(spent) / sum(own)
        if phase == "data" and result.goodput:
            share = share_of_data(result.goodput)
        seconds = step - saved - in_turns * share
        low, high = left + exchanging, step - min(*spent, saved)
    return Prediction(
        seconds,
        (1 - _REPEATS) * min(low, seconds),
        (1 + _REPEATS) * high,
        ("The slowest rank decides the time of a step.",),
    )


def whatif(
    run_name: RunArgument,
    bandwidth: Annotated[
        float | None,
        typer.Option(metavar="MBIT", min=0.001, help="Maximum bandwidth in Mbit/s."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Number of workers.")
    ] = None,
    without: Annotated[
        str | None,
        typer.Option(metavar="rank:N", help="Rank that becomes as fast as a typical rank."),
    ] = None,
    free: Annotated[
        str | None, typer.Option(metavar="PHASE", help="Phase that takes no time, such as data.")
    ] = None,
    exchange: Annotated[
        str | None, typer.Option(metavar="NAME", help="Exchange algorithm of another run here.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Predict the step time of a run after one change.

    The prediction has an interval. Epochs to the target are not predicted.
    """
    given = [bandwidth, workers, without, free, exchange]
    changes = sum(option is not None for option in given)
    if changes != 1:
        raise UsageError(
            "--bandwidth, --workers, --without, --free, --exchange: exactly one is required "
            f"(got {changes})."
        )
    with open_run(run_name) as (client, run):
        measured = _measured(client, run)
        if bandwidth is not None:
            links = (_link(client, run, mbit) for mbit in (run.max_bandwidth, bandwidth))
            prediction = with_bandwidth(measured, *links)
        elif workers is not None:
            prediction = with_workers(measured, workers, _link(client, run, run.max_bandwidth))
        elif without is not None:
            kind, _, number = without.partition(":")
            if kind != "rank" or not number.isdecimal():
                raise UsageError(
                    f"--without: must be a rank (got {without!r}). Write, for example, rank:3."
                )
            prediction = without_rank(measured, int(number))
        elif free is not None:
            prediction = without_phase(measured, free)
        else:
            reference = _reference(client, measured, str(exchange))
            mbits = (reference.run.max_bandwidth, run.max_bandwidth)
            links = (_link(client, run, mbit) for mbit in mbits)
            prediction = with_exchange(reference, *links)
    step = measured.step_seconds
    if json:
        print_json({"run_id": run.id, "step_seconds": step, "predicted": asdict(prediction)})
        return
    low, high = figures.seconds(prediction.low), figures.seconds(prediction.high)
    out.print(
        f"{figures.seconds(prediction.seconds)} a step ({low} to {high}), instead of "
        f"{figures.seconds(step)}: {step / prediction.seconds:.2f}x speedup",
        soft_wrap=True,
    )
    for sentence in prediction.basis:
        out.print(f"  {sentence}", soft_wrap=True)


def _measured(client: ApiClient, run: Run) -> Measured:
    return Measured(run, patiently(client.get_result, run.id))


def _link(client: ApiClient, run: Run, mbit: float | None) -> Link:
    """Return a network with the times of the newest quiet run of ``communication`` in it."""
    if mbit is None:
        return Link(None)
    query = f"benchmark=communication state=FINISHED workers={run.num_workers}"
    same = [
        other
        for other in client.get_runs(query=query).result().value
        if (other.max_bandwidth, other.latency_ms, other.loss_percent)
        == (mbit, run.latency_ms, run.loss_percent)
        and not other.disturbed
    ]
    if not same:
        return Link(mbit)
    series = client.get_run_metrics(same[-1].id).result().value
    size_at = {point.date: point.number for point in series.get(f"{names.MESSAGE_BYTES} @ 0", ())}
    # A message of an all-gather is the result of all ranks.
    n = run.num_workers
    shares = {"all_reduce": 2 * (n - 1) / n, "all_gather": (n - 1) / n}
    times = {
        operation: sorted(
            (share * size_at[point.date], point.number)
            for point in series.get(f"{operation}_float32_seconds @ 0", ())
            if point.date in size_at
        )
        for operation, share in shares.items()
    }
    return Link(mbit, times, f"{same[-1].id} (communication)")


def _reference(client: ApiClient, measured: Measured, exchange: str) -> Measured:
    """Return the finished run with another exchange that needs the least extrapolation.

    Runs with the same bandwidth come first, then those with the most; of equal ones, the newest.
    """
    run = measured.run
    if not run.benchmark:
        raise MLBenchError(
            f"--exchange: run {run.id} is your own code, whose exchange is not known. Choose a "
            "run of a task with the option exchange."
        )
    if exchange not in _OPERATIONS:
        choices = ", ".join(_OPERATIONS)
        raise UsageError(f"--exchange: not known (got {exchange!r}). Choose one of {choices}.")
    query = f"benchmark={run.benchmark} state=FINISHED workers={run.num_workers}"
    ours = {**(run.settings or {}), "exchange": exchange}
    others = [
        other
        for other in client.get_runs(query=query).result().value
        if other.num_cpus == run.num_cpus
        and all(
            (other.settings or {}).get(name) == ours.get(name)
            for name in ("exchange", *_SAME_COMPUTING)
        )
    ]
    if others:
        limit = run.max_bandwidth
        nearest = max(
            others,
            key=lambda other: (
                other.max_bandwidth == limit,
                other.max_bandwidth or math.inf,
                other.id,
            ),
        )
        return _measured(client, nearest)
    raise MLBenchError(
        f"--exchange: the computing and the bytes of {exchange} are not known, because no finished "
        f"run of {run.benchmark} with {count(run.num_workers, 'worker')} and the same batch and "
        f"cores has used it. Run `mlbench run {run.benchmark} --workers {run.num_workers} --set "
        f"exchange={exchange}` first."
    )
