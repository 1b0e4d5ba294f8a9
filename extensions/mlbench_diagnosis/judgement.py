"""Hang diagnosis: stacks and evidence of the ranks of a run, and the verdict on them.

A wrong accusation is worse than none: a waiting rank is not accused, and the verdict names the
missing evidence.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from pathlib import PurePosixPath

from mlbench.contract.diagnosis import (
    Collective,
    Evidence,
    Frame,
    Process,
    StackLine,
    Thread,
    Verdict,
)
from mlbench.contract.humanize import join
from mlbench.evaluation.first_failure import Ended, ended_first

# --- Stacks ---


def merge_stacks(evidence: Sequence[Evidence]) -> tuple[StackLine, ...]:
    """Merge the main threads' stacks of all ranks into one tree, its lines from the root."""
    ranks = (RankSummary(of_rank) for of_rank in evidence)
    stacks = {rank.evidence.rank: rank.frames[::-1] for rank in ranks if rank.main}
    return tuple(_merge(stacks, sorted(stacks), 0))


def _merge(
    stacks: Mapping[int, Sequence[Frame]], among: Sequence[int], depth: int
) -> Iterator[StackLine]:
    by_frame: dict[Frame, list[int]] = {}
    for rank in among:
        if depth < len(stacks[rank]):
            by_frame.setdefault(stacks[rank][depth], []).append(rank)
    for frame, here in by_frame.items():
        elsewhere = tuple(rank for rank in among if rank not in here)
        yield StackLine(depth, frame, tuple(here), elsewhere)
        yield from _merge(stacks, here, depth + 1)


def format_frame(frame: Frame, quote: str = "`") -> str:
    """Return a frame as ```function` (file:line)``, without the file's folder."""
    return f"{quote}{frame.function}{quote} ({PurePosixPath(frame.file).name}:{frame.line})"


def package_of(frame: Frame) -> str:
    """Return a frame's package: ``""`` for the standard library, ``.`` for other code."""
    file = frame.file
    for folder in ("/site-packages/", "/dist-packages/"):
        if folder in file:
            return file.split(folder, 1)[1].split("/")[0]
    is_standard = file.startswith("<frozen") or "/lib/python3" in file or "/lib64/python3" in file
    return "" if is_standard else "."


# --- Evidence of the ranks ---

ENDED = "ZX"
"""States of a process that has exited."""
_FRAMEWORKS = ("torch", "jax", "jaxlib", "tensorflow", "keras", "numpy")
# PyTorch waits for other ranks in these files.
_TORCH_WAITS = ("torch/distributed/distributed_c10d.py", "torch/distributed/rendezvous.py")
# A rank that waits in the data loader does not wait for other ranks.
_TORCH_DATA = "torch/utils/data/"


def split(evidence: Evidence) -> Iterator[Evidence]:
    """Yield the evidence of each rank of a worker that has several.

    For a worker that has exited, torchrun reports the rank that failed; torchrun ended the others.
    """
    if len(evidence.ranks) < 2:
        yield evidence
        return
    failed = re.match(r"rank (\d+): ", evidence.failure)
    for rank in evidence.ranks:
        processes = tuple(process for process in evidence.processes if process.rank == rank)
        pids = {process.pid for process in processes}
        is_ended = evidence.exit_code and failed and int(failed[1]) != rank
        yield replace(
            evidence,
            rank=rank,
            ranks=(rank,),
            processes=processes,
            threads=tuple(thread for thread in evidence.threads if thread.pid in pids),
            collectives=tuple(call for call in evidence.collectives if call.rank == rank),
            # torchrun ends ranks with SIGTERM.
            exit_code=-15 if is_ended else evidence.exit_code,
            failure="" if is_ended else evidence.failure.removeprefix(f"rank {rank}: "),
        )


@dataclass(frozen=True)
class RankSummary:
    """A rank, and a summary of its evidence."""

    evidence: Evidence

    @cached_property
    def main(self) -> Thread | None:
        """Main thread of the first of its processes that runs Python."""
        mains = {thread.pid: thread for thread in self.evidence.threads if thread.is_main}
        order = [process.pid for process in self.evidence.processes]
        return next((mains[pid] for pid in (*order, *mains) if pid in mains), None)

    @property
    def frames(self) -> Sequence[Frame]:
        """Stack of the main thread, the innermost frame first."""
        return self.main.frames if self.main else ()

    @cached_property
    def at(self) -> Frame | None:
        """First frame outside of frameworks and the standard library."""
        return _first_own(self.frames)

    @cached_property
    def loads_at(self) -> Frame | None:
        """Frame of the data loader's worker that the rank waits for; None if it does not wait."""
        if not any(_TORCH_DATA in frame.file for frame in self.frames):
            return None
        # Frames outside of this file belong to the process that the worker forked from.
        file = "torch/utils/data/_utils/worker.py"
        for worker in self.evidence.threads:
            inner = [*takewhile(lambda frame: not frame.file.endswith(file), worker.frames)]
            own = _first_own(inner)
            # A worker that waits for its next item has only PyTorch's frames.
            if worker.is_main and len(inner) < len(worker.frames) and own:
                return own
        return None

    @cached_property
    def below(self) -> Sequence[Frame]:
        """Frames of libraries that ``at`` has called."""
        return [*takewhile(lambda frame: frame is not self.at, self.frames)]

    @cached_property
    def waits_in(self) -> Collective | None:
        """Collective that the rank has entered, and that has not completed."""
        return next((call for call in self.evidence.collectives if not call.retired), None)

    @property
    def waits(self) -> bool:
        """Whether PyTorch reports that the rank waits for other ranks."""
        in_torch = any(frame.file.endswith(_TORCH_WAITS) for frame in self.below)
        return self.waits_in is not None or in_torch

    @property
    def is_in_framework(self) -> bool:
        """Whether the rank may wait for other ranks in a framework that does not report it."""
        inside = [frame for frame in self.below if package_of(frame) in _FRAMEWORKS]
        return bool(inside) and _TORCH_DATA not in inside[0].file

    @property
    def phase(self) -> str:
        """Phase of the training; empty outside of all phases, and without a report."""
        return next((process.phase for process in self.evidence.processes if process.phase), "")

    @property
    def has_ended(self) -> bool:
        """Whether the rank's process has exited."""
        has_exited = self.evidence.exit_code is not None
        return has_exited or any(first.state in ENDED for first in self.evidence.processes[:1])

    @property
    def ended(self) -> Ended:
        """Exit of the rank."""
        e = self.evidence
        return Ended(e.rank, e.exit_code, e.stderr_end, e.out_of_memory_kills)

    def processes_in(self, states: str) -> list[Process]:
        """Return the rank's processes whose state is one of these letters."""
        return [process for process in self.evidence.processes if process.state in states]

    @property
    def place(self) -> str:
        """Position of the rank, with other findings about it."""
        text = f"at {format_frame(self.at)}" if self.at else "at a place that is not known"
        if self.waits_in:
            text = f"in {format_call(self.waits_in)}"
        if self.loads_at:
            return f"{text} (its data loader's worker is at {format_frame(self.loads_at)})"
        for process in self.evidence.processes[1:]:
            if process.state in ENDED:
                return f"{text} (its process {process.pid}, {process.command[:40]}, has died)"
        return text


def _first_own(frames: Sequence[Frame]) -> Frame | None:
    """Return the first frame outside of frameworks and the standard library."""
    return next((frame for frame in frames if package_of(frame) not in ("", *_FRAMEWORKS)), None)


@dataclass(frozen=True)
class HangEvidence:
    """All ranks with evidence."""

    ranks: Mapping[int, RankSummary]
    world_size: int

    @cached_property
    def missing(self) -> Sequence[int]:
        """Ranks without evidence."""
        return [rank for rank in range(self.world_size) if rank not in self.ranks]

    @cached_property
    def alive(self) -> Mapping[int, RankSummary]:
        """Ranks that have not exited."""
        return {number: rank for number, rank in self.ranks.items() if not rank.has_ended}

    @cached_property
    def groups(self) -> Sequence[Mapping[int, Collective]]:
        """Last collective of each living rank, for each process group."""
        groups: dict[str, dict[int, Collective]] = {}
        for number, rank in self.alive.items():
            for call in rank.evidence.collectives:
                groups.setdefault(call.group, {})[number] = call
        return [*groups.values()]

    @property
    def has_entered(self) -> bool:
        """Whether any rank is in a collective."""
        return any(rank.waits_in for rank in self.ranks.values())

    @cached_property
    def waiting(self) -> Sequence[int]:
        """Ranks that wait for others."""
        return [number for number, rank in self.alive.items() if rank.waits]

    @cached_property
    def behind(self) -> Sequence[int]:
        """Ranks that have not entered a collective in which others wait, and do not wait."""
        late = set()
        for group in self.groups:
            awaited = max((call.number for call in group.values() if not call.retired), default=0)
            late |= {number for number, call in group.items() if call.number < awaited}
        return sorted(late.difference(self.waiting))

    def accuse(
        self, kind: str, at_fault: Sequence[int], explanation: str, certainty: str
    ) -> Verdict:
        """Return a verdict on ranks, with their position and the ranks that wait for them."""
        positions = (self.ranks[number].at for number in at_fault)
        frames = {format_frame(frame, quote="") for frame in positions if frame}
        waiting = [number for number in self.waiting if number not in at_fault]
        entered = [call for number in waiting if (call := self.ranks[number].waits_in)]
        where = f" in {format_call(entered[0])}" if entered else ""
        if waiting:
            whom = "it" if len(at_fault) == 1 else "them"
            explanation += f"; {name_ranks(waiting, 'wait')} for {whom}{where}"
        if self.missing:
            explanation += f"; {name_ranks(self.missing, 'have')} sent no evidence"
        return Verdict(
            kind,
            tuple(at_fault),
            frames.pop() if len(frames) == 1 else "",
            f"{name_of(entered[0])} {entered[0].number}" if entered else "",
            explanation,
            certainty,
        )

    def describe(self, numbers: Iterable[int]) -> str:
        """Describe the positions of ranks; those at the same position together."""
        positions = by_text({number: self.ranks[number].place for number in numbers})
        return "; ".join(f"{name_ranks(ranks, 'be')} {text}" for text, ranks in positions.items())


def accuse_nobody(
    kind: str, explanation: str, certainty: str = "none", *, where: str = "", collective: str = ""
) -> Verdict:
    """Return a verdict by which no rank is at fault."""
    return Verdict(kind, (), where, collective, explanation, certainty)


def by_text(texts: Mapping[int, str]) -> Mapping[str, list[int]]:
    """Return the ranks that have the same text, by the text."""
    ranks: dict[str, list[int]] = {}
    for rank, text in texts.items():
        ranks.setdefault(text, []).append(rank)
    return ranks


def name_of(call: Collective) -> str:
    """Return the name of a collective without its backend."""
    return call.name.rpartition(":")[2] or "collective"


def format_call(call: Collective) -> str:
    """Return a collective as ``all-reduce 22``."""
    return f"{name_of(call).replace('_', '-')} {call.number}"


def name_ranks(numbers: Sequence[int], verb: str) -> str:
    """Return ``rank 1 waits`` or ``ranks 0, 2 and 3 wait``."""
    singular, plural = {"be": ("is", "are"), "have": ("has", "have")}.get(verb, (f"{verb}s", verb))
    if len(numbers) == 1:
        return f"rank {numbers[0]} {singular}"
    return f"ranks {join([str(number) for number in numbers])} {plural}"


# --- Verdict ---

# In these collectives, all ranks must pass tensors of the same shapes.
_SAME_SIZES = ("all_reduce", "allreduce", "broadcast", "reduce")


def judge(evidence: Sequence[Evidence], world_size: int) -> Verdict:
    """Return the verdict on a hang, given the evidence of the ranks."""
    newest = {of_rank.rank: of_rank for of_rank in sorted(evidence, key=lambda item: item.at)}
    hang = HangEvidence({rank: RankSummary(newest[rank]) for rank in sorted(newest)}, world_size)
    for rule in _RULES:
        if verdict := rule(hang):
            return verdict
    ended = [number for number, rank in hang.ranks.items() if rank.has_ended]
    parts = [hang.describe(hang.alive)]
    parts += [f"{name_ranks(ended, 'have')} ended"] if ended else []
    parts += [f"{name_ranks(hang.missing, 'have')} sent no evidence"] if hang.missing else []
    return accuse_nobody("unknown", f"cannot tell: {'; '.join(filter(None, parts))}")


def _progressing(hang: HangEvidence) -> Verdict | None:
    """Ranks that did a step while the evidence was gathered cannot be compared."""
    evidence = [rank.evidence for rank in hang.ranks.values()]
    if not evidence or len(hang.alive) < len(evidence):
        return None
    times = [of_rank.at for of_rank in evidence]
    # Clocks of the workers may differ by a second.
    spread = max(times) - min(times) + 1.0
    quiet = {e.rank: e.quiet_seconds for e in evidence if e.quiet_seconds is not None}
    moving = [rank for rank, seconds in quiet.items() if seconds <= spread]
    usual = max(of_rank.usual_step_seconds or 0.0 for of_rank in evidence)
    if moving:
        text = f"the run progresses: {name_ranks(moving, 'have')} just done a step"
    elif quiet and max(quiet.values()) <= 3 * usual:
        text = f"it may progress: its last step was {max(quiet.values()):.0f} s ago, and a step "
        text += f"takes {usual:.0f} s"
    else:
        return None
    return accuse_nobody("progressing", text)


def _sizes_differ(hang: HangEvidence) -> Verdict | None:
    """Accuse the minority, or both of two ranks, if gloo aborted a rank that passed too little.

    The evidence of an aborted rank has no size. That of the ranks that failed because of it does.
    """
    # gloo prints this before it aborts.
    message = "op.preamble.length <= op.nbytes"
    aborted = [n for n, rank in hang.ranks.items() if message in rank.evidence.stderr_end]
    if not aborted:
        return None
    text = f"the ranks give a collective different sizes: {name_ranks(aborted, 'have')} got more "
    text += "than expected"
    last = {n: call for n, rank in hang.ranks.items() for call in rank.evidence.collectives[:1]}
    newest = max((call.number for call in last.values()), default=0)
    calls = {n: call for n, call in last.items() if call.number == newest and n not in aborted}
    if calls:
        text += f": {_format_calls(by_text({n: _call(call) for n, call in calls.items()}))}"
    sizes = {n: sum(map(math.prod, call.sizes)) for n, call in calls.items()}
    large = [n for n, size in sizes.items() if size == max(sizes.values())]
    small = [n for n in (*sizes, *aborted) if n not in large]
    fewer, more = sorted((large, small), key=len)
    at_fault: Sequence[int] = ()
    if len(hang.ranks) == hang.world_size == 2:
        at_fault = [*hang.ranks]
    elif len({*sizes.values()}) in (1, 2) and 2 * len(more) > hang.world_size:
        at_fault = fewer
    return _accuse_mismatch(hang, at_fault, text)


def _exited(hang: HangEvidence) -> Verdict | None:
    gone = [number for number, rank in hang.ranks.items() if rank.has_ended]
    failed = [number for number in gone if hang.ranks[number].evidence.exit_code]
    echoing = [number for number, rank in hang.ranks.items() if rank.ended.echoes]
    if not gone or not (failed or echoing or hang.waiting):
        return None  # Ranks that have not ended may be at fault as well.
    at_fault = ended_first([hang.ranks[number].ended for number in gone])
    sentences = []
    for number in at_fault or failed:
        evidence = hang.ranks[number].evidence
        sentence = f"rank {number} has ended"
        if evidence.exit_code is not None:
            sentence += f" with exit code {evidence.exit_code}"
        if evidence.out_of_memory_kills:
            sentence += " (the kernel killed it for lack of memory)"
        if evidence.exit_code and evidence.failure:
            sentence += f" ({evidence.failure[:200]})"
        sentences.append(sentence)
    text = " and ".join(sentences)
    if not at_fault or (failed and len(at_fault) > 1):
        return accuse_nobody("exited", f"{text}: which was first is not known")
    return hang.accuse("exited", at_fault, text, "certain")


def _not_runnable(hang: HangEvidence) -> Verdict | None:
    """Accuse ranks that are stopped, or else those that wait for a device.

    The latter are not accused if another rank is late, or all of them wait.
    """
    waiting = []
    for number, rank in hang.alive.items():
        # A helper process of the rank may read a disk at any moment.
        own_pids = {rank.evidence.processes[0].pid} if rank.evidence.processes else set()
        own_pids |= {rank.main.pid} if rank.main else set()
        pids = {process.pid for process in rank.processes_in("D")}
        if pids & own_pids or (pids and number in hang.behind):
            waiting.append(number)
    at_fault = [number for number, rank in hang.alive.items() if rank.processes_in("Tt")]
    kind, states, state, certainty = "stopped", "Tt", "is stopped", "certain"
    if not at_fault:
        at_fault = [number for number in waiting if number in hang.behind or not hang.behind]
        kind, states, state, certainty = "blocked_io", "D", "waits for a device", "likely"
        if not at_fault or len(at_fault) == hang.world_size > 1:
            return None
    sentences = []
    for number in at_fault:
        rank = hang.ranks[number]
        process = rank.processes_in(states)[0]
        is_first = process is rank.evidence.processes[0]
        subject = f"rank {number}" if is_first else f"process {process.pid} of rank {number}"
        waits_in = f" in {process.waits_in}" if kind == "blocked_io" and process.waits_in else ""
        position = f", at {format_frame(rank.at)}" if rank.at else ""
        sentences.append(f"{subject} {state}{waits_in}{position}")
    return hang.accuse(kind, at_fault, " and ".join(sentences), certainty)


def _not_in_collective(hang: HangEvidence) -> Verdict | None:
    if not hang.behind:
        return None
    is_certain = not hang.missing and all(hang.ranks[number].at for number in hang.behind)
    explanation = hang.describe(hang.behind)
    return hang.accuse(
        "not_in_collective", hang.behind, explanation, "certain" if is_certain else "likely"
    )


def _mismatch(hang: HangEvidence) -> Verdict | None:
    """Accuse the ranks whose collective of the same number differs from most; of two ranks both."""
    for group in hang.groups:
        numbers = {call.number for call in group.values()}
        names = {name_of(call) for call in group.values()}
        if len(numbers) > 1 or not any(numbers):
            continue
        call_text = _call if len(names) == 1 else format_call
        calls = by_text({number: call_text(call) for number, call in group.items()})
        if len(calls) == 1:
            continue
        most = max(calls.values(), key=len)
        at_fault = [number for number in group if number not in most]
        if len(most) * 2 <= len(group):
            at_fault = [*group] if len(group) == 2 else []
        explanation = f"the ranks call different collectives: {_format_calls(calls)}"
        return _accuse_mismatch(hang, at_fault, explanation)
    return None


def _accuse_mismatch(hang: HangEvidence, at_fault: Sequence[int], explanation: str) -> Verdict:
    frames = ((number, hang.ranks[number].at) for number in at_fault)
    positions = (f"rank {number} at {format_frame(frame)}" for number, frame in frames if frame)
    explanation = "; ".join((explanation, *positions))
    verdict = hang.accuse("mismatch", at_fault, explanation, "likely" if at_fault else "none")
    return replace(verdict, sentence=explanation)


def _format_calls(calls: Mapping[str, Sequence[int]]) -> str:
    return " and ".join(f"{name_ranks(ranks, 'be')} in {call}" for call, ranks in calls.items())


def _network(hang: HangEvidence) -> Verdict | None:
    """Accuse nobody if all ranks are in the same collective, which does not end."""
    for group in hang.groups:
        first = next(iter(group.values()))
        is_same = {(call.number, call.retired) for call in group.values()} == {
            (first.number, False)
        }
        if is_same and len(group) == hang.world_size > 1:
            text = f"all ranks are in {format_call(first)}, so it may be the network between them"
            collective = f"{name_of(first)} {first.number}"
            return accuse_nobody("network", text, "likely", collective=collective)
    return None


def _few_elsewhere(hang: HangEvidence) -> Verdict | None:
    """Accuse ranks in their own code if at least half of all ranks wait, and none in a collective.

    The others wait in the same line, or in the phase ``communication``. The latter works with any
    framework, even if it does not report where its ranks wait.
    """
    if hang.missing or len(hang.alive) < len(hang.ranks) or hang.has_entered:
        return None
    reports = any(hang.groups)
    waiting = [n for n, r in hang.ranks.items() if (r.waits if reports else r.is_in_framework)]
    if len({hang.ranks[number].at for number in waiting}) > 1:
        waiting = []
    inside = [n for n, rank in hang.ranks.items() if rank.phase == "communication"]
    in_phase = f"{name_ranks(inside, 'wait')} in the phase communication"
    for others, where in ((waiting, hang.describe(waiting)), (inside, in_phase)):
        few = [number for number in hang.ranks if number not in others]
        if few and len(few) <= len(others) and all(hang.ranks[number].at for number in few):
            explanation = f"{hang.describe(few)}; {where}"
            return replace(
                hang.accuse("not_in_collective", few, explanation, "likely"),
                sentence=explanation,
            )
    return None


def _same_line(hang: HangEvidence) -> Verdict | None:
    """Name the frame that all ranks are at, if none is in a collective."""
    frames = {rank.at for rank in hang.ranks.values()}
    frame = next(iter(frames), None)
    if len(frames) != 1 or frame is None or hang.missing or hang.has_entered:
        return None
    subject = "all ranks are" if hang.world_size > 1 else "rank 0 is"
    where = format_frame(frame, quote="")
    return accuse_nobody("same_line", f"{subject} at {format_frame(frame)}", "likely", where=where)


_RULES: tuple[Callable[[HangEvidence], Verdict | None], ...] = (
    _progressing,
    _sizes_differ,
    _exited,
    _not_runnable,
    _not_in_collective,
    _mismatch,
    _network,
    _few_elsewhere,
    _same_line,
)


def _call(call: Collective) -> str:
    """Format a collective with the shapes that must be the same on all ranks."""
    if name_of(call) not in _SAME_SIZES:
        return format_call(call)
    shapes = ", ".join("x".join(map(str, shape)) or "1" for shape in call.sizes)
    return f"{format_call(call)} of {shapes}"
