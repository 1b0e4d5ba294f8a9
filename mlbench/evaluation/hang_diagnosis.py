"""Hang diagnosis: stacks and evidence of the ranks of a run, and the verdict on them.

A wrong accusation is worse than none: a waiting rank is not accused, and the verdict says what is
not known.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from pathlib import PurePosixPath

from mlbench.contract.autopsy import (
    Collective,
    Evidence,
    Frame,
    Process,
    StackLine,
    Thread,
    Verdict,
)
from mlbench.contract.words import join

# --- Stacks ---


def merge_stacks(evidence: Sequence[Evidence]) -> tuple[StackLine, ...]:
    """Merge the stacks of the main threads of all ranks into one tree, its lines from the root."""
    stacks = {
        one.rank: tuple(reversed(thread.frames)) for one in evidence if (thread := main_thread(one))
    }
    return tuple(_merge(stacks, sorted(stacks), 0))


def spell_frame(frame: Frame) -> str:
    """Return a frame as ``function (file:line)``, without the file's folder."""
    return f"{frame.function} ({PurePosixPath(frame.file).name}:{frame.line})"


def mark_frame(frame: Frame) -> str:
    """Return the same with the function marked as code."""
    return f"`{frame.function}` ({PurePosixPath(frame.file).name}:{frame.line})"


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


def main_thread(evidence: Evidence) -> Thread | None:
    """Return the main thread of the first of its processes that runs Python."""
    mains = {thread.pid: thread for thread in evidence.threads if thread.is_main}
    order = [process.pid for process in evidence.processes]
    return next((mains[pid] for pid in (*order, *mains) if pid in mains), None)


def package_of(frame: Frame) -> str:
    """Return the package that a frame is of, ``""`` for the standard library, ``.`` for neither."""
    file = frame.file
    for folder in ("/site-packages/", "/dist-packages/"):
        if folder in file:
            return file.split(folder, 1)[1].split("/")[0]
    is_standard = file.startswith("<frozen") or "/lib/python3" in file or "/lib64/python3" in file
    return "" if is_standard else "."


# --- Evidence of the ranks ---

ENDED = "ZX"
"""The states of a process that is over."""
_FRAMEWORKS = ("torch", "jax", "jaxlib", "tensorflow", "keras", "numpy")
# Where PyTorch waits for other ranks.
_TORCH_WAITS = ("torch/distributed/distributed_c10d.py", "torch/distributed/rendezvous.py")
# It is no waiting for other ranks.
_TORCH_DATA = "torch/utils/data/"
_TORCH_WORKER = "torch/utils/data/_utils/worker.py"
_NAMED = re.compile(r"rank (\d+): ")
_ENDED_BY_TORCHRUN = -15


def split(evidence: Evidence) -> Iterator[Evidence]:
    """Yield the evidence of each rank of a worker that has several.

    Of a worker that has ended, torchrun says which rank failed; it has ended the others.
    """
    if len(evidence.ranks) < 2:
        yield evidence
        return
    named = _NAMED.match(evidence.failure)
    for rank in evidence.ranks:
        processes = tuple(process for process in evidence.processes if process.rank == rank)
        pids = {process.pid for process in processes}
        is_ended = evidence.exit_code and named and int(named[1]) != rank
        yield replace(
            evidence,
            rank=rank,
            ranks=(rank,),
            processes=processes,
            threads=tuple(thread for thread in evidence.threads if thread.pid in pids),
            collectives=tuple(call for call in evidence.collectives if call.rank == rank),
            exit_code=_ENDED_BY_TORCHRUN if is_ended else evidence.exit_code,
            failure="" if is_ended else evidence.failure.removeprefix(f"rank {rank}: "),
        )


@dataclass(frozen=True)
class RankSeen:
    """A rank, and what its evidence says at a glance."""

    evidence: Evidence

    @cached_property
    def main(self) -> Thread | None:
        """The main thread of the first of its processes that runs Python."""
        return main_thread(self.evidence)

    @cached_property
    def at(self) -> Frame | None:
        """Its first frame outside of frameworks and the standard library."""
        frames = self.main.frames if self.main else ()
        return next((one for one in frames if package_of(one) not in ("", *_FRAMEWORKS)), None)

    @cached_property
    def loads_at(self) -> Frame | None:
        """Where a worker of the data loader is that it waits for; None if it waits for none."""
        frames = self.main.frames if self.main else ()
        if not any(_TORCH_DATA in frame.file for frame in frames):
            return None
        for worker in self.evidence.threads:
            # Further out are the frames of the process that it was forked from.
            its = [*takewhile(lambda frame: not frame.file.endswith(_TORCH_WORKER), worker.frames)]
            own = [one for one in its if package_of(one) not in ("", *_FRAMEWORKS)]
            # A worker that waits for its next item is in PyTorch's code alone.
            if worker.is_main and len(its) < len(worker.frames) and own:
                return own[0]
        return None

    @cached_property
    def below(self) -> Sequence[Frame]:
        """The frames of libraries that it is in, from there."""
        frames = self.main.frames if self.main else ()
        return [*takewhile(lambda frame: frame is not self.at, frames)]

    @cached_property
    def waits_in(self) -> Collective | None:
        """The collective that it has entered, and that is not over."""
        return next((one for one in self.evidence.collectives if not one.retired), None)

    @property
    def waits(self) -> bool:
        """Whether it waits for other ranks, as far as PyTorch tells."""
        in_torch = any(frame.file.endswith(_TORCH_WAITS) for frame in self.below)
        return self.waits_in is not None or in_torch

    @property
    def is_in_framework(self) -> bool:
        """Whether it may wait for other ranks in a framework that does not tell."""
        inside = [frame for frame in self.below if package_of(frame) in _FRAMEWORKS]
        return bool(inside) and _TORCH_DATA not in inside[0].file

    @property
    def phase(self) -> str:
        """The phase that its training is in; "" outside of all, or if it tells none."""
        return next((one.phase for one in self.evidence.processes if one.phase), "")

    @property
    def has_ended(self) -> bool:
        """Whether its process is over."""
        its = self.evidence.processes
        return self.evidence.exit_code is not None or bool(its and its[0].state in ENDED)

    def processes_in(self, states: str) -> list[Process]:
        """Return its processes whose state is one of these letters."""
        return [process for process in self.evidence.processes if process.state in states]

    @property
    def place(self) -> str:
        """Where it is, and what else is wrong with it."""
        text = f"at {mark_frame(self.at)}" if self.at else "at a place that is not known"
        if self.waits_in:
            text = f"in {spell(self.waits_in)}"
        if self.loads_at:
            return f"{text} (its data loader's worker is at {mark_frame(self.loads_at)})"
        for process in self.evidence.processes[1:]:
            if process.state in ENDED:
                return f"{text} (its process {process.pid}, {process.command[:40]}, has died)"
        return text

    @property
    def killed(self) -> str:
        """That the kernel has killed it, if it did."""
        kills = self.evidence.out_of_memory_kills
        return " (the kernel killed it for lack of memory)" if kills else ""


@dataclass(frozen=True)
class Seen:
    """All ranks of which there is evidence."""

    ranks: Mapping[int, RankSeen]
    world_size: int

    @cached_property
    def missing(self) -> Sequence[int]:
        """The ranks of which there is no evidence."""
        return [rank for rank in range(self.world_size) if rank not in self.ranks]

    @cached_property
    def alive(self) -> Mapping[int, RankSeen]:
        """The ranks that have not ended."""
        return {number: rank for number, rank in self.ranks.items() if not rank.has_ended}

    @cached_property
    def groups(self) -> Sequence[Mapping[int, Collective]]:
        """The last collective of each living rank, for each group of processes."""
        groups: dict[str, dict[int, Collective]] = {}
        for number, rank in self.alive.items():
            for one in rank.evidence.collectives:
                groups.setdefault(one.group, {})[number] = one
        return [*groups.values()]

    @cached_property
    def waiting(self) -> Sequence[int]:
        """The ranks that wait for others."""
        return [number for number, rank in self.alive.items() if rank.waits]

    @cached_property
    def behind(self) -> Sequence[int]:
        """Ranks that have not entered a collective that others wait in, and wait for nobody."""
        late = set()
        for group in self.groups:
            awaited = max((one.number for one in group.values() if not one.retired), default=0)
            late |= {number for number, one in group.items() if one.number < awaited}
        return sorted(late.difference(self.waiting))

    def accuse(self, kind: str, culprits: Sequence[int], how: str, certainty: str) -> Verdict:
        """Name ranks, where they are, and who waits for them."""
        its = (self.ranks[number].at for number in culprits)
        frames = {spell_frame(frame) for frame in its if frame}
        waiting = [number for number in self.waiting if number not in culprits]
        entered = [collective for number in waiting if (collective := self.ranks[number].waits_in)]
        where = f" in {spell(entered[0])}" if entered else ""
        if waiting:
            whom = "it" if len(culprits) == 1 else "them"
            how += f"; {name_ranks(waiting, 'wait')} for {whom}{where}"
        if self.missing:
            how += f"; {name_ranks(self.missing, 'have')} told nothing"
        return Verdict(
            kind,
            tuple(culprits),
            frames.pop() if len(frames) == 1 else "",
            f"{name_of(entered[0])} {entered[0].number}" if entered else "",
            how,
            certainty,
        )

    def describe(self, numbers: Iterable[int]) -> str:
        """Say where ranks are: those together that are at the same place."""
        places = by_text({number: self.ranks[number].place for number in numbers})
        return "; ".join(f"{name_ranks(there, 'be')} {place}" for place, there in places.items())


def by_text(texts: Mapping[int, str]) -> Mapping[str, list[int]]:
    """Return the ranks of which the same is said, by that."""
    ranks: dict[str, list[int]] = {}
    for rank, text in texts.items():
        ranks.setdefault(text, []).append(rank)
    return ranks


def name_of(one: Collective) -> str:
    """Return the name of a collective without its backend."""
    return one.name.rpartition(":")[2] or "collective"


def spell(one: Collective) -> str:
    """Return a collective as ``all-reduce 22``."""
    return f"{name_of(one).replace('_', '-')} {one.number}"


def name_ranks(numbers: Sequence[int], verb: str) -> str:
    """Return ``rank 1 waits`` or ``ranks 0, 2 and 3 wait``."""
    one, several = {"be": ("is", "are"), "have": ("has", "have")}.get(verb, (f"{verb}s", verb))
    if len(numbers) == 1:
        return f"rank {numbers[0]} {one}"
    return f"ranks {join([str(number) for number in numbers])} {several}"


# --- Verdict ---

_STOPPED, _ON_DEVICE = "Tt", "D"
# Collectives whose ranks must all give tensors of the same shapes.
_SAME_SIZES = ("all_reduce", "allreduce", "broadcast", "reduce")
# How processes end that are stopped because another one has failed.
_STOPPED_BY = (-15, -9, 143, 137)
# What a process says that fails because another one is gone.
_ECHOES = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")
# What gloo says where ranks give a collective different sizes, before it aborts one of them.
_SIZES_DIFFER = "op.preamble.length <= op.nbytes"
_CLOCKS_DIFFER_SECONDS = 1.0
_LONGEST_WORDS = 200
# A step that takes longer than so many usual ones may hang.
_USUAL_STEPS = 3


def judge(evidence: Sequence[Evidence], world_size: int) -> Verdict:
    """Return who is at fault, by the evidence of the ranks that there is."""
    newest = {one.rank: one for one in sorted(evidence, key=lambda one: one.at)}
    seen = Seen({rank: RankSeen(newest[rank]) for rank in sorted(newest)}, world_size)
    return next(verdict for rule in _RULES if (verdict := rule(seen)) is not None)


def _goes_on(seen: Seen) -> Verdict | None:
    """Ranks that did a step while the evidence was gathered cannot be compared."""
    its = [rank.evidence for rank in seen.ranks.values()]
    if not its or len(seen.alive) < len(its):
        return None
    moments = [e.at for e in its]
    spread = max(moments) - min(moments) + _CLOCKS_DIFFER_SECONDS
    quiet = {e.rank: e.quiet_seconds for e in its if e.quiet_seconds is not None}
    moving = [rank for rank, seconds in quiet.items() if seconds <= spread]
    usual = max(e.usual_step_seconds or 0.0 for e in its)
    if moving:
        text = f"the run goes on: {name_ranks(moving, 'have')} just done a step"
    elif quiet and max(quiet.values()) <= _USUAL_STEPS * usual:
        text = f"it may go on: its last step was {max(quiet.values()):.0f} s ago, and a step takes "
        text += f"{usual:.0f} s"
    else:
        return None
    return Verdict("going", (), "", "", text, "none")


def _sizes_differ(seen: Seen) -> Verdict | None:
    """Accuse the fewer where gloo has aborted a rank that gave less than others; of two ranks both.

    What it aborts tells no size any more; those that fail because of that have left theirs.
    """
    its = [n for n, rank in seen.ranks.items() if _SIZES_DIFFER in rank.evidence.stderr_end]
    if not its:
        return None
    text = f"the ranks give a collective different sizes: {name_ranks(its, 'have')} got more than "
    text += "expected"
    last = {n: call for n, rank in seen.ranks.items() for call in rank.evidence.collectives[:1]}
    newest = max((call.number for call in last.values()), default=0)
    given = {n: call for n, call in last.items() if call.number == newest and n not in its}
    if given:
        text += f": {_spell_calls(by_text({n: _call(call) for n, call in given.items()}))}"
    sizes = {n: sum(map(math.prod, call.sizes)) for n, call in given.items()}
    large = [n for n, size in sizes.items() if size == max(sizes.values())]
    small = [n for n in (*sizes, *its) if n not in large]
    fewer, more = sorted((large, small), key=len)
    culprits: Sequence[int] = ()
    if len(seen.ranks) == seen.world_size == 2:
        culprits = [*seen.ranks]
    elif len({*sizes.values()}) in (1, 2) and 2 * len(more) > seen.world_size:
        culprits = fewer
    return _accuse_mismatch(seen, culprits, text)


@dataclass(frozen=True)
class Ended:
    """How a rank ended."""

    rank: int
    exit_code: int | None
    stderr_end: str
    out_of_memory_kills: int = 0

    @property
    def echoes(self) -> bool:
        """Whether it says that another rank is gone."""
        return any(echo in self.stderr_end for echo in _ECHOES)

    @property
    def is_cause(self) -> bool:
        """Whether it has failed by itself, not because another one had."""
        was_stopped = self.exit_code in _STOPPED_BY and not self.out_of_memory_kills
        return bool(self.exit_code) and not was_stopped and not self.echoes


def ended_first(ended: Sequence[Ended]) -> list[int]:
    """Return the ranks because of which the others ended, by their exit codes and last words.

    These are the ranks that failed by themselves, or without any those that ended with code 0
    while others lost their connection to them.
    """
    failed = [one for one in ended if one.exit_code]
    causes = [one.rank for one in failed if one.is_cause]
    by_itself = [one.rank for one in failed if not one.echoes]
    return causes or by_itself or [o.rank for o in ended if not o.exit_code and not o.echoes]


def _gone(seen: Seen) -> Verdict | None:
    gone = [number for number, rank in seen.ranks.items() if rank.has_ended]
    failed = [number for number in gone if seen.ranks[number].evidence.exit_code]
    echoing = [number for number, rank in seen.ranks.items() if _ended(rank).echoes]
    if not gone or not (failed or echoing or seen.waiting):
        return None  # Those that have not ended may be at fault as well.
    culprits = ended_first([_ended(seen.ranks[number]) for number in gone])
    hows = []
    for number in culprits or failed:
        code, killed = seen.ranks[number].evidence.exit_code, seen.ranks[number].killed
        with_code = "" if code is None else f" with exit code {code}"
        words = seen.ranks[number].evidence.failure[:_LONGEST_WORDS] if code else ""
        why = f" ({words})" if words else ""
        hows.append(f"rank {number} has ended{with_code}{killed}{why}")
    how = " and ".join(hows)
    if not culprits or (failed and len(culprits) > 1):
        return Verdict("gone", (), "", "", f"{how}: which was first is not known", "none")
    return seen.accuse("gone", culprits, how, "certain")


def _ended(rank: RankSeen) -> Ended:
    its = rank.evidence
    return Ended(its.rank, its.exit_code, its.stderr_end, its.out_of_memory_kills)


def _stopped(seen: Seen) -> Verdict | None:
    found = [number for number, rank in seen.alive.items() if rank.processes_in(_STOPPED)]
    return _by_state(seen, "stopped", found, _STOPPED) if found else None


def _on_device(seen: Seen) -> Verdict | None:
    """Accuse who waits for a device, unless another rank is late or all of them wait so."""
    waiting = [
        number
        for number, rank in seen.alive.items()
        if rank.processes_in(_ON_DEVICE) and (number in seen.behind or _is_itself_on_device(rank))
    ]
    culprits = [number for number in waiting if number in seen.behind or not seen.behind]
    if not culprits or len(culprits) == seen.world_size > 1:
        return None
    return _by_state(seen, "device", culprits, _ON_DEVICE)


def _is_itself_on_device(rank: RankSeen) -> bool:
    """Tell whether it is not a helper of it, which may read a disk at any moment."""
    pids = {rank.evidence.processes[0].pid, rank.main.pid if rank.main else None}
    return any(process.pid in pids for process in rank.processes_in(_ON_DEVICE))


def _by_state(seen: Seen, kind: str, culprits: Sequence[int], states: str) -> Verdict:
    hows = []
    for number in culprits:
        rank = seen.ranks[number]
        process = rank.processes_in(states)[0]
        is_first = process is rank.evidence.processes[0]
        who = f"rank {number}" if is_first else f"process {process.pid} of rank {number}"
        how = "is stopped" if kind == "stopped" else "waits for a device"
        waits_in = f" in {process.waits_in}" if kind == "device" and process.waits_in else ""
        hows.append(f"{who} {how}{waits_in}" + (f", at {mark_frame(rank.at)}" if rank.at else ""))
    certainty = "certain" if kind == "stopped" else "likely"
    return seen.accuse(kind, culprits, " and ".join(hows), certainty)


def _behind(seen: Seen) -> Verdict | None:
    if not seen.behind:
        return None
    is_certain = not seen.missing and all(seen.ranks[number].at for number in seen.behind)
    how = seen.describe(seen.behind)
    return seen.accuse("behind", seen.behind, how, "certain" if is_certain else "likely")


def _mismatch(seen: Seen) -> Verdict | None:
    """Accuse who calls another collective than most, at the same number; of two ranks both."""
    for group in seen.groups:
        numbers = {call.number for call in group.values()}
        names = {name_of(call) for call in group.values()}
        if len(numbers) > 1 or not any(numbers):
            continue
        spelled = _call if len(names) == 1 else spell
        calls = by_text({number: spelled(call) for number, call in group.items()})
        if len(calls) == 1:
            continue
        most = max(calls.values(), key=len)
        culprits = [number for number in group if number not in most]
        if len(most) * 2 <= len(group):
            culprits = [*group] if len(group) == 2 else []
        how = f"the ranks call different collectives: {_spell_calls(calls)}"
        return _accuse_mismatch(seen, culprits, how)
    return None


def _accuse_mismatch(seen: Seen, culprits: Sequence[int], how: str) -> Verdict:
    frames = ((number, seen.ranks[number].at) for number in culprits)
    its = (f"rank {number} at {mark_frame(frame)}" for number, frame in frames if frame)
    how = "; ".join((how, *its))
    found = seen.accuse("mismatch", culprits, how, "likely" if culprits else "none")
    return replace(found, sentence=how)


def _spell_calls(calls: Mapping[str, Sequence[int]]) -> str:
    return " and ".join(f"{name_ranks(there, 'be')} in {call}" for call, there in calls.items())


def _network(seen: Seen) -> Verdict | None:
    """Accuse nobody where all ranks are in the same collective, which does not end."""
    for group in seen.groups:
        one = next(iter(group.values()))
        is_same = {(each.number, each.retired) for each in group.values()} == {(one.number, False)}
        if is_same and len(group) == seen.world_size > 1:
            text = f"all ranks are in {spell(one)}, so it may be the network between them"
            return Verdict("network", (), "", f"{name_of(one)} {one.number}", text, "likely")
    return None


def _odd(seen: Seen) -> Verdict | None:
    """Accuse the few that are in code of their own where all others wait in the same line."""
    if not _is_comparable(seen):
        return None
    tells = any(seen.groups)
    waits = [n for n, rank in seen.ranks.items() if (rank.waits if tells else rank.is_in_framework)]
    odd = [number for number in seen.ranks if number not in waits]
    lines = {seen.ranks[number].at for number in waits}
    if len(lines) != 1:
        return None
    return _accuse_few(seen, odd, waits, seen.describe(waits))


def _outside(seen: Seen) -> Verdict | None:
    """Accuse the few that are outside of the phase ``communication``, which all others are in.

    It needs no framework that tells where its ranks wait.
    """
    if not _is_comparable(seen):
        return None
    inside = [n for n, rank in seen.ranks.items() if rank.phase == "communication"]
    outside = [number for number in seen.ranks if number not in inside]
    where = f"{name_ranks(inside, 'wait')} in the phase communication"
    return _accuse_few(seen, outside, inside, where)


def _is_comparable(seen: Seen) -> bool:
    """Check whether all ranks are alive and have answered, and no collective tells who waits."""
    return not (seen.missing or len(seen.alive) < len(seen.ranks) or any(_entered(seen)))


def _accuse_few(
    seen: Seen, few: Sequence[int], others: Sequence[int], where: str
) -> Verdict | None:
    """Accuse the ranks that the others wait for, if these are at least as many."""
    if not few or len(few) > len(others) or not all(seen.ranks[number].at for number in few):
        return None
    how = f"{seen.describe(few)}; {where}"
    return replace(seen.accuse("behind", few, how, "likely"), sentence=how)


def _shared(seen: Seen) -> Verdict | None:
    """Name the frame that all ranks are at, none of which is in a collective."""
    frames = {rank.at for rank in seen.ranks.values()}
    frame = next(iter(frames), None)
    if len(frames) != 1 or frame is None or seen.missing or any(_entered(seen)):
        return None
    who = "all ranks are" if seen.world_size > 1 else "rank 0 is"
    return Verdict("shared", (), spell_frame(frame), "", f"{who} at {mark_frame(frame)}", "likely")


def _entered(seen: Seen) -> Iterator[Collective]:
    return (one for rank in seen.ranks.values() if (one := rank.waits_in))


def _unknown(seen: Seen) -> Verdict:
    silent = f"{name_ranks(seen.missing, 'have')} told nothing" if seen.missing else ""
    ended = [number for number, rank in seen.ranks.items() if rank.has_ended]
    over = f"{name_ranks(ended, 'have')} ended" if ended else ""
    parts = filter(None, (seen.describe(seen.alive), over, silent))
    return Verdict("unknown", (), "", "", f"cannot tell: {'; '.join(parts)}", "none")


_RULES: tuple[Callable[[Seen], Verdict | None], ...] = (
    _goes_on,
    _sizes_differ,
    _gone,
    _stopped,
    _on_device,
    _behind,
    _mismatch,
    _network,
    _odd,
    _outside,
    _shared,
    _unknown,
)


def _call(one: Collective) -> str:
    """Spell a collective with the shapes that all ranks have to agree in."""
    if name_of(one) not in _SAME_SIZES:
        return spell(one)
    shapes = ", ".join("x".join(map(str, shape)) or "1" for shape in one.sizes)
    return f"{spell(one)} of {shapes}"
