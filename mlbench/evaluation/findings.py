"""Findings about a run: what made it slow, what it cost, and what removing the cause would save.

Each rule is a function. Its docstring says when it applies, how it predicts the saving, and what to
do, and is the documentation of the rule (``docs/findings.md``). A healthy run has no finding.

Savings are predicted from the time breakdown. Its buckets are worker-seconds, so a bucket divided
by the number of workers is a part of the run's time.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from statistics import fmean, median
from typing import Literal

from mlbench.contract.figures import percent
from mlbench.contract.figures import seconds as duration
from mlbench.contract.humanize import count, join, numbered
from mlbench.contract.metric_titles import metric_title
from mlbench.contract.names import ACTIVE_STATES, DISTURBED_SHARE, Bucket
from mlbench.contract.records import Interference
from mlbench.contract.results import Finding, Goodput, RankInterference, Result, Saving
from mlbench.evaluation.inputs import RankRow, RunRow
from mlbench.evaluation.stragglers import is_contended

MAX_FINDINGS = 3
_OUTSIDE_TRAINING = {"nan", "evaluation", "restarts"}
_COMPUTING = {"forward", "backward", "compute"}
_STARTUP: tuple[Bucket, ...] = ("workers", "start", "initialization", "restore")
_STEP: tuple[Bucket, ...] = ("compute", "communication", "waiting", "contention", "data", "stopped")


def _held_share(rank: RankInterference) -> float:
    """Return the share of time for which others held a rank's cores: programs or a hypervisor."""
    return max(rank.contention_share, rank.stolen_share or 0.0)


@dataclass(frozen=True)
class RunEvidence:
    """A run, the ranks of its latest attempt, and its result without findings."""

    run: RunRow
    ranks: Sequence[RankRow]
    result: Result

    @cached_property
    def workers(self) -> int:
        """Number of workers that the time breakdown covers."""
        goodput = self.result.goodput
        return max(1, len({row.rank for row in goodput.ranks}) if goodput else 0)

    def seconds(self, *buckets: Bucket) -> float:
        """Return the mean seconds of the run that a worker spent in some buckets."""
        seconds = self.result.goodput.seconds if self.result.goodput else {}
        return sum(seconds.get(bucket, 0.0) for bucket in buckets) / self.workers

    def by_rank(self, *buckets: Bucket, repeated: Sequence[Bucket] = ()) -> Mapping[int, float]:
        """Return the seconds of each worker in some buckets, and of later attempts in others."""
        by_rank: defaultdict[int, float] = defaultdict(float)
        for row in self.result.goodput.ranks if self.result.goodput else ():
            counted = (*buckets, *(repeated if row.attempt > 1 else ()))
            by_rank[row.rank] += sum(row.seconds.get(bucket, 0.0) for bucket in counted)
        return by_rank

    def extremes(self, *buckets: Bucket) -> tuple[float, float]:
        """Return the least and the most seconds that a worker spent in some buckets."""
        seconds = self.by_rank(*buckets).values()
        return min(seconds, default=0.0), max(seconds, default=0.0)

    @property
    def whole(self) -> float:
        """Seconds from the run's turn in the queue to its end."""
        return (
            sum(self.result.goodput.seconds.values()) / self.workers if self.result.goodput else 0
        )

    @property
    def in_steps(self) -> float:
        """Mean seconds that a worker spent in steps of the final model."""
        return self.seconds(*_STEP)

    @property
    def is_broken_off(self) -> bool:
        """Whether the run ended before its training was done; shares of its time mean little."""
        outcome = self.result.outcome
        return self.run.state == "FAILED" or (
            outcome is not None and outcome.kind in ("hung", "nan")
        )

    def finding(
        self,
        title: str,
        text: str,
        seconds: float,
        saving: Saving | None = None,
        section: Literal["loss", "ranks", "breakdown", "timeline"] = "breakdown",
        severity: Literal["bad", "warn"] = "warn",
    ) -> Finding:
        """Return a finding that cost the run ``seconds``, without the name of its rule.

        ``section`` is the section of the run page that shows the evidence.
        """
        return Finding("", severity, title, text, seconds * self.workers, saving, section)

    @cached_property
    def contended(self) -> list[RankInterference]:
        """Ranks of all attempts with CPU contention, the most affected first.

        Ranks that were only profiled or stopped are disturbed, but not contended.
        """
        ranks = self.result.interferences
        contended = (rank for rank in ranks if _held_share(rank) > DISTURBED_SHARE)
        return sorted(contended, key=_held_share, reverse=True)

    @property
    def has_straggler(self) -> bool:
        """Whether one rank is named as the straggler; otherwise ranks may be late in turns."""
        return self.result.stragglers is not None and self.result.stragglers.named is not None

    @property
    def interference(self) -> list[tuple[int, Interference]]:
        """Measured interference of the latest attempt by rank."""
        return [(row.rank, row.interference) for row in self.ranks if row.interference]


Rule = Callable[[RunEvidence], Finding | None]
RULES: list[Rule] = []
_ACTIVITIES: Mapping[Bucket, str] = {"data": "loading data", "checkpoint": "saving checkpoints"}


def rule(function: Rule) -> Rule:
    """Register a rule; the name of the function is the ``rule`` of its findings."""
    RULES.append(function)
    return function


def findings_of(run: RunRow, ranks: Sequence[RankRow], result: Result) -> tuple[Finding, ...]:
    """Return at most three findings: errors first, then those whose removal saves most.

    Where no saving is predicted, the cost of a worker stands for it.

    Causes that cost less than 5 % of the run's time are left out, except restarts, and except CPU
    contention, which also makes a result doubtful.
    """
    evidence = RunEvidence(run, ranks, result)
    least = 0.05 * evidence.whole * evidence.workers
    findings = [
        replace(finding, rule=rule.__name__)
        for rule in RULES
        if (finding := rule(evidence))
        and (finding.seconds > least or finding.severity == "bad" or rule in (contention, restarts))
    ]

    def order(finding: Finding) -> tuple[bool, float]:
        saving = finding.saving
        saved = saving.seconds if saving else finding.seconds / evidence.workers
        return finding.severity != "bad", -saved

    return tuple(sorted(findings, key=order)[:MAX_FINDINGS])


@rule
def nan(evidence: RunEvidence) -> Finding | None:
    """Report a loss or target metric that is NaN or infinite until the end of the run.

    The saving is the time of training after the first such value, which cannot succeed. Use a
    smaller learning rate, clip gradients, or stop at the first NaN.
    """
    outcome = evidence.result.outcome
    loss = evidence.run.not_finite
    if loss is None and (outcome is None or outcome.kind != "nan"):
        return None
    wasted = evidence.seconds("diverged")
    if loss is None:
        assert outcome
        where = outcome.text
    else:
        step = "" if loss.step is None else f" since step {loss.step:,}"
        rank = f", rank {loss.rank}" if loss.rank else ""
        where = f"{metric_title(loss.metric)} is not a number{step}{rank}"
    return evidence.finding(
        "The loss is NaN",
        f"{where}. Training from there on cannot succeed.",
        wasted,
        Saving(wasted, wasted, wasted) if wasted else None,
        section="loss",
        severity="bad",
    )


@rule
def straggler(evidence: RunEvidence) -> Finding | None:
    """Report the straggler: a rank for which the others waited, beyond chance and by 5 % or more.

    If other programs held its core for most of its delay, the finding is ``contention`` instead.
    The saving replaces its time by that of a typical rank, step by step; its interval is 5 %.
    """
    stragglers = evidence.result.stragglers
    if stragglers is None or stragglers.named is None:
        return None
    late = next(rank for rank in stragglers.ranks if rank.rank == stragglers.named)
    waited = evidence.by_rank("contention").get(late.rank, 0.0)
    if late.rank in {r.rank for r in evidence.contended} and is_contended(late.seconds, waited):
        return None
    figures = {rank.rank: rank for rank in evidence.result.ranks}
    others = [
        f.compute_seconds for f in figures.values() if f.rank != late.rank and f.compute_seconds
    ]
    own = figures.get(late.rank)
    trained = own.training_seconds if own else None
    saving = None
    if trained:
        without = trained / late.speedup_without
        saving = Saving(
            trained - without, max(0.0, trained - 1.05 * without), trained - 0.95 * without
        )
    part = max(late.parts, key=lambda part: late.parts[part])
    text = f"It was {late.seconds:,.1f} s late"
    if own and own.compute_seconds and others:
        text += (
            f": its own work takes {duration(own.compute_seconds)} a step, that of the others "
            f"{duration(median(others))}"
        )
    text += f". The time is in {_ACTIVITIES.get(part, 'computing')}."
    return evidence.finding(
        f"Rank {late.rank} held up the others",
        text,
        evidence.seconds("waiting"),
        saving,
        section="ranks",
        severity="bad" if late.speedup_without >= 1.5 else "warn",
    )


@rule
def data(evidence: RunEvidence) -> Finding | None:
    """Report that ranks wait for data for 10 % or more of their steps.

    The saving is the mean over the ranks, plus the waits that uneven loading causes: those of ranks
    that are late in turns, without the share of CPU contention, and at most as long as the loading
    itself. Its interval reaches from the least of a rank to the most of a rank with all waits.
    Load batches in background processes (``num_workers`` of PyTorch's DataLoader), or store decoded
    data.
    """
    waited, result = evidence.seconds("data"), evidence.result
    if evidence.is_broken_off or waited < 0.1 * evidence.in_steps or not result.goodput:
        return None
    least, most = evidence.extremes("data")
    by_rank = [rank.phases.get("data", 0.0) for rank in result.ranks]
    if len(by_rank) > evidence.workers and any(by_rank):
        # The breakdown has only the mean over the processes of a worker, such as torchrun's.
        scale = waited / fmean(by_rank)
        least, most = scale * min(by_rank), scale * max(by_rank)
    in_turns = 0.0 if evidence.has_straggler else evidence.seconds("waiting")
    return evidence.finding(
        "Training waits for data",
        f"Ranks waited {waited:,.1f} s of {evidence.in_steps:,.1f} s in steps for their next "
        "batch. Load batches in background processes, or store decoded data.",
        waited,
        Saving(
            waited + min(waited, in_turns * share_of_data(result.goodput)), least, most + in_turns
        ),
    )


def share_of_data(goodput: Goodput) -> float:
    """Return the estimated share of data loading in what ranks wait that are late in turns.

    Its times differ from step to step, and so does CPU contention, whereas a model computes about
    equally long for each batch.
    """
    data, contention = (goodput.seconds.get(b, 0.0) for b in ("data", "contention"))
    return data / ((data + contention) or 1.0)


@rule
def communication(evidence: RunEvidence) -> Finding | None:
    """Report that communication takes half of the steps or more, unless it is the benchmark.

    The saving is the time of all communication: exchange less often or fewer bytes (``exchange``),
    or use a faster network. If a step computes for less than 5 ms, the saving is instead the gain
    of twice the batch. That halves the costs of a step that do not depend on its samples:
    communication, the time outside of phases, the optimizer, and waits, except for a straggler. Its
    interval is from half of the least communication of a worker to half of the highest costs.
    """
    seconds = evidence.seconds("communication")
    if evidence.run.benchmark == "communication" or evidence.is_broken_off:
        return None
    if not seconds or seconds < 0.5 * evidence.in_steps:
        return None
    text = f"Ranks communicated for {seconds:,.1f} s of {evidence.in_steps:,.1f} s in steps."
    title, saved = "Communication dominates the steps", seconds
    least, most = evidence.extremes("communication")
    computes = [rank.compute_seconds for rank in evidence.result.ranks if rank.compute_seconds]
    limit = evidence.run.max_bandwidth
    if limit:
        text += f" The bandwidth is limited to {limit:g} Mbit/s."
    elif computes and median(computes) < 0.005:
        title = "The batch of a worker is small"
        text += (
            f" A step computes for {duration(median(computes))} only: with twice the "
            "batch, ranks exchange half as often."
        )
        buckets: list[Bucket] = ["communication"]
        if not evidence.has_straggler:
            buckets.append("waiting")
        # Without phases of computing, the time outside of phases is computing.
        phases = [
            rank.phases for rank in evidence.result.ranks if not _COMPUTING.isdisjoint(rank.phases)
        ]
        fixed = [of_rank.get("other", 0.0) + of_rank.get("optimizer", 0.0) for of_rank in phases]
        saved = (evidence.seconds(*buckets) + (fmean(fixed) if fixed else 0.0)) / 2
        least, most = least / 2, (evidence.extremes(*buckets)[1] + max(fixed, default=0.0)) / 2
    return evidence.finding(title, text, seconds, Saving(saved, least, most))


@rule
def contention(evidence: RunEvidence) -> Finding | None:
    """Report ranks whose cores other programs, or a hypervisor, held for over 5 % of their time.

    The saving is the wait of the rank that waited most, because the others wait for it. Its lower
    end is the mean over the ranks, and its upper end includes the mean straggler wait. The time of
    a hypervisor has no predicted saving. Stop the other programs, or give the run cores of its own.
    """
    contended = evidence.contended
    if not contended:
        return None
    worst, share = contended[0], _held_share(contended[0])
    ranks = sorted({rank.rank for rank in contended})
    names = numbered("rank", ranks) if len(ranks) <= 4 else count(len(ranks), "rank")
    text = f"A hypervisor held cores of {names}"
    if share == worst.contention_share:
        programs = list(worst.measured.top)[:2]
        by = f": {join(programs)}" if programs else ""
        text = f"Other programs used cores of {names}{by}"
    text += f", up to {percent(share, 0)} of the time"
    # The time breakdown and the saving include MLBench's own processes.
    stack_share = max(rank.measured.contention_share - rank.contention_share for rank in contended)
    if stack_share > DISTURBED_SHARE:
        text += f", and MLBench's own processes another {percent(stack_share, 0)}"
    mean, (_, most) = evidence.seconds("contention"), evidence.extremes("contention")
    high = mean + evidence.seconds("waiting")
    return evidence.finding(
        "CPU contention",
        f"{text}.",
        mean,
        Saving(min(most, high), mean, high) if mean else None,
    )


@rule
def threads(evidence: RunEvidence) -> Finding | None:
    """Report ranks whose own threads waited for a core while another of their threads used it.

    It is reported from 15 % of their time on if the code reported more ``threads`` than cores. If
    the code did not report them, it is reported from 45 % on if the rank's busiest process has more
    ready threads than its cores and one and a half. The saving is not predicted. Use as many
    threads as a rank has cores (``OMP_NUM_THREADS``, or ``torch.set_num_threads`` in the code).
    """
    reported = (evidence.run.settings or {}).get("threads")
    worst, share, cores, ready = -1, 0.0, 1, 0.0
    for rank, measured in evidence.interference:
        throttled = (measured.throttled_seconds or 0.0) / measured.cores
        own = (measured.self_contention_seconds - throttled) / measured.seconds
        if measured.seconds >= 1 and own > share:
            worst, share, cores = rank, own, measured.cores
            ready = (measured.ready_thread_seconds or 0.0) / measured.seconds
    if isinstance(reported, (int, float)):
        is_certain, threads = reported > cores and share >= 0.15, f"runs {reported:g} threads"
    else:
        is_certain = ready > cores + 1.5 and share >= 0.45
        threads = f"has {ready:.1f} ready threads on average"
    if not is_certain:
        return None
    return evidence.finding(
        "More threads than cores",
        f"Rank {worst} {threads} on {count(cores, 'core')}, where they waited for each other "
        f"for {percent(share, 0)} of its time. Set OMP_NUM_THREADS={cores}, or "
        f"torch.set_num_threads({cores}) in the code.",
        share * evidence.seconds("compute", "contention"),
        section="ranks",
    )


@rule
def cpu_limit(evidence: RunEvidence) -> Finding | None:
    """Report a CPU limit that stopped ranks for 10 % or more of the time of their steps.

    The saving is the mean over the ranks, and its interval the least and the most. Raise the limit,
    or use fewer threads.
    """
    throttled = [m.throttled_seconds or 0.0 for _, m in evidence.interference]
    stopped = evidence.seconds("stopped")
    if not any(throttled) or stopped < 0.1 * evidence.in_steps:
        return None
    return evidence.finding(
        "The CPU limit slows the run",
        f"It stopped each rank for {stopped:,.1f} s of {evidence.in_steps:,.1f} s in steps.",
        stopped,
        Saving(stopped, *evidence.extremes("stopped")),
    )


@rule
def memory(evidence: RunEvidence) -> Finding | None:
    """Report processes that waited for memory for 5 % or more of the time.

    The saving is that time, at most. Raise the memory limit, or use smaller batches or fewer
    data-loader processes.
    """
    shares = [
        (measured.pod_pressure_seconds.get("memory", 0.0) / measured.seconds, rank)
        for rank, measured in evidence.interference
        if measured.seconds >= 1
    ]
    share, rank = max(shares, default=(0.0, 0))
    if share < 0.05:
        return None
    saved = share * evidence.in_steps
    return evidence.finding(
        "Memory is near its limit",
        f"Processes of rank {rank} waited for memory for {percent(share, 0)} of the time.",
        saved,
        Saving(saved, 0.0, saved),
        section="ranks",
    )


@rule
def evaluation(evidence: RunEvidence) -> Finding | None:
    """Report that evaluation takes a third of a run's time or more.

    The saving is half of that time, if the training evaluates half as often.
    """
    seconds = evidence.seconds("evaluation")
    if evidence.is_broken_off or seconds < evidence.whole / 3 or not seconds:
        return None
    least, most = evidence.extremes("evaluation")
    return evidence.finding(
        f"Evaluation takes {percent(seconds / evidence.whole, 0)} of the time",
        f"It took {seconds:,.1f} s of {evidence.whole:,.1f} s. Evaluate half as often.",
        seconds,
        Saving(seconds / 2, least / 2, most / 2),
    )


@rule
def checkpoints(evidence: RunEvidence) -> Finding | None:
    """Report that saving checkpoints takes 10 % of a run's time or more.

    The saving is three quarters of that time, if the training saves a quarter as often.
    """
    seconds, cost = evidence.seconds("checkpoint"), evidence.result.checkpoints
    if not seconds or seconds < 0.1 * evidence.whole:
        return None
    each = f" {cost.count:,} checkpoints took {duration(cost.seconds)} each." if cost else ""
    least, most = evidence.extremes("checkpoint")
    return evidence.finding(
        "Checkpoints are frequent",
        f"Saving them took {seconds:,.1f} s of {evidence.whole:,.1f} s.{each}",
        seconds,
        Saving(0.75 * seconds, 0.75 * least, 0.75 * most),
    )


@rule
def startup(evidence: RunEvidence) -> Finding | None:
    """Report a start-up of 40 % of a run's time or more, and of at least 10 s.

    The saving is not predicted. Several trials in one process, or a fork server, share a start.
    """
    seconds = evidence.seconds("workers", "start", "initialization")
    is_short = seconds < 10 or seconds < 0.4 * evidence.whole
    is_partial = evidence.run.state in ACTIVE_STATES or evidence.run.attempt > 1
    trained = evidence.result.training_seconds is not None
    if is_short or is_partial or evidence.is_broken_off or not trained:
        return None
    return evidence.finding(
        f"{percent(seconds / evidence.whole, 0)} of the time was start-up",
        f"Imports and initialization took {seconds:,.1f} s of {evidence.whole:,.1f} s.",
        seconds,
    )


@rule
def restarts(evidence: RunEvidence) -> Finding | None:
    """Report the restarts of a run after failures.

    The saving is the time that restarts cost: discarded steps, detection, restart, start-up of
    the later attempts.
    """
    attempts = evidence.run.attempt
    if attempts < 2:
        return None
    down = evidence.by_rank("lost", "detection", "restart", repeated=_STARTUP).values()
    seconds = fmean(down) if down else 0.0
    steps = sum(resumption.discarded_steps for resumption in evidence.result.resumptions)
    planned = bool(evidence.run.faults)
    cause = "Faults were injected as planned" if planned else "Ranks failed and were restarted"
    lost = f", with {count(steps, 'discarded step')}" if steps else ""
    return evidence.finding(
        count(attempts - 1, "planned restart" if planned else "restart"),
        f"{cause}{lost}.",
        seconds,
        Saving(seconds, min(down), max(down)) if seconds else None,
        section="timeline",
    )


@dataclass(frozen=True)
class Check:
    """A prediction of findings, and a later run without their causes."""

    rules: tuple[str, ...]
    """Rules whose findings the later run does not have."""
    clock: Literal["training", "wall"]
    """Clock of the durations: training time if the causes only delay steps, else wall clock."""
    predicted: Saving
    """Predicted duration of the run without these causes, in seconds, with its interval."""
    took: float
    """Duration of the later run in seconds."""

    @property
    def error(self) -> float:
        """Error of the prediction as a share of the later run's duration; positive if too long."""
        return self.predicted.seconds / self.took - 1


def check(before: Result, after: Result) -> Check | str:
    """Compare the predictions of a run's findings with a later run; or say why it is impossible."""
    remaining = {finding.rule for finding in after.findings}
    removed = [f for f in before.findings if f.saving and f.rule not in remaining]
    if not removed:
        return f"no finding of run {before.run_id} with a predicted saving is gone"
    if before.samples != after.samples or before.num_workers != after.num_workers:
        return "the runs differ in their workers or samples, so their times cannot be compared"
    steps, later_steps = ([rank.steps for rank in result.ranks] for result in (before, after))
    if before.samples is None and steps != later_steps:
        return "the runs differ in their ranks or steps, so their times cannot be compared"
    rules = tuple(finding.rule for finding in removed)
    clock: Literal["training", "wall"] = "training"
    was, took = before.training_seconds, after.training_seconds
    if not _OUTSIDE_TRAINING.isdisjoint(rules):
        clock, was, took = "wall", before.wall_seconds, after.wall_seconds
    if was is None or not took:
        return f"the {clock} time of a run is not known"
    savings = [astuple(finding.saving) for finding in removed if finding.saving]
    seconds, low, high = (was - sum(saving) for saving in zip(*savings, strict=True))
    return Check(rules, clock, Saving(seconds, high, low), took)
