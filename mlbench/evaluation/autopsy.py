"""Judging why a run does not go on, by what was gathered of its ranks. Pure.

A wrong accusation is worse than none: who waits is not accused, and what is not known is said.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from pathlib import PurePosixPath

from mlbench.autopsy import Collective, Evidence, Frame, Process, StackLine, Thread, Verdict
from mlbench.words import join

_STOPPED, _ON_DEVICE, _ENDED = "Tt", "D", "ZX"
_FRAMEWORKS = ("torch", "jax", "jaxlib", "tensorflow", "keras", "numpy")
# Where PyTorch waits for other ranks.
_TORCH_WAITS = ("torch/distributed/distributed_c10d.py", "torch/distributed/rendezvous.py")
# It is no waiting for other ranks.
_TORCH_DATA = "torch/utils/data/"
# Collectives whose ranks must all give tensors of the same shapes.
_SAME_SIZES = ("all_reduce", "allreduce", "broadcast", "reduce")
# How processes end that are stopped because another one has failed.
_STOPPED_BY = (-15, -9, 143, 137)
# What a process says that fails because another one is gone.
_ECHOES = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")
# What gloo says where ranks give a collective different sizes, before it aborts one of them.
_SIZES_DIFFER = "op.preamble.length <= op.nbytes"
_CLOCKS_DIFFER_SECONDS = 1.0


def judge(evidence: Sequence[Evidence], world_size: int) -> Verdict:
    """Return who is at fault, by the evidence of the ranks that there is."""
    newest = {one.rank: one for one in sorted(evidence, key=lambda one: one.at)}
    seen = _Seen({rank: _Rank(newest[rank]) for rank in sorted(newest)}, world_size)
    return next(verdict for rule in _RULES if (verdict := rule(seen)) is not None)


def merge_stacks(evidence: Sequence[Evidence]) -> tuple[StackLine, ...]:
    """Merge the stacks of the main threads of all ranks into one tree, its lines from the root."""
    stacks = {
        one.rank: tuple(reversed(thread.frames)) for one in evidence if (thread := _main(one))
    }
    return tuple(_merge(stacks, sorted(stacks), 0))


def spell_frame(frame: Frame) -> str:
    """Return a frame as ``function (file:line)``, without the file's folder."""
    return f"{frame.function} ({PurePosixPath(frame.file).name}:{frame.line})"


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


def _main(evidence: Evidence) -> Thread | None:
    """Return the main thread of the first of its processes that runs Python."""
    mains = {thread.pid: thread for thread in evidence.threads if thread.is_main}
    order = [process.pid for process in evidence.processes]
    return next((mains[pid] for pid in (*order, *mains) if pid in mains), None)


def _package(frame: Frame) -> str:
    """Return the package that a frame is of, ``""`` for the standard library, ``.`` for neither."""
    file = frame.file
    for folder in ("/site-packages/", "/dist-packages/"):
        if folder in file:
            return file.split(folder, 1)[1].split("/")[0]
    is_standard = file.startswith("<frozen") or "/lib/python3" in file or "/lib64/python3" in file
    return "" if is_standard else "."


@dataclass(frozen=True)
class _Rank:
    """A rank, and what its evidence says at a glance."""

    evidence: Evidence

    @cached_property
    def main(self) -> Thread | None:
        return _main(self.evidence)

    @cached_property
    def at(self) -> Frame | None:
        """Its first frame outside of frameworks and the standard library."""
        frames = self.main.frames if self.main else ()
        return next((one for one in frames if _package(one) not in ("", *_FRAMEWORKS)), None)

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
        inside = [frame for frame in self.below if _package(frame) in _FRAMEWORKS]
        return bool(inside) and _TORCH_DATA not in inside[0].file

    @property
    def has_ended(self) -> bool:
        its = self.evidence.processes
        return self.evidence.exit_code is not None or bool(its and its[0].state in _ENDED)

    def processes_in(self, states: str) -> list[Process]:
        return [process for process in self.evidence.processes if process.state in states]

    @property
    def place(self) -> str:
        """Where it is, and what else is wrong with it."""
        text = f"at {_marked(self.at)}" if self.at else "at a place that is not known"
        if self.waits_in:
            text = f"in {_spell(self.waits_in)}"
        for process in self.evidence.processes[1:]:
            if process.state in _ENDED:
                return f"{text} (its process {process.pid}, {process.command[:40]}, has died)"
        return text

    @property
    def killed(self) -> str:
        kills = self.evidence.out_of_memory_kills
        return " (the kernel killed it for lack of memory)" if kills else ""


@dataclass(frozen=True)
class _Seen:
    """All ranks of which there is evidence."""

    ranks: Mapping[int, _Rank]
    world_size: int

    @cached_property
    def missing(self) -> Sequence[int]:
        return [rank for rank in range(self.world_size) if rank not in self.ranks]

    @cached_property
    def alive(self) -> Mapping[int, _Rank]:
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
        entered = [one for number in waiting if (one := self.ranks[number].waits_in)]
        where = f" in {_spell(entered[0])}" if entered else ""
        if waiting:
            how += (
                f"; {_ranks(waiting, 'wait')} for {'it' if len(culprits) == 1 else 'them'}{where}"
            )
        if self.missing:
            how += f"; {_ranks(self.missing, 'have')} told nothing"
        return Verdict(
            kind,
            tuple(culprits),
            frames.pop() if len(frames) == 1 else "",
            f"{_name(entered[0])} {entered[0].number}" if entered else "",
            how,
            certainty,
        )

    def describe(self, numbers: Iterable[int]) -> str:
        """Say where ranks are: those together that are at the same place."""
        places: dict[str, list[int]] = {}
        for number in numbers:
            places.setdefault(self.ranks[number].place, []).append(number)
        return "; ".join(f"{_ranks(there, 'be')} {place}" for place, there in places.items())


def _goes_on(seen: _Seen) -> Verdict | None:
    """Ranks that did a step while the evidence was gathered cannot be compared."""
    its = [rank.evidence for rank in seen.ranks.values()]
    if not its or len(seen.alive) < len(its):
        return None
    spread = max(one.at for one in its) - min(one.at for one in its) + _CLOCKS_DIFFER_SECONDS
    quiet = ((one.rank, one.quiet_seconds) for one in its)
    moving = [rank for rank, seconds in quiet if seconds is not None and seconds <= spread]
    if not moving:
        return None
    text = f"the run goes on: {_ranks(moving, 'have')} just done a step"
    return Verdict("going", (), "", "", text, "none")


def _sizes_differ(seen: _Seen) -> Verdict | None:
    """Accuse nobody where gloo has aborted a rank that may be right; of two ranks both."""
    its = [n for n, rank in seen.ranks.items() if _SIZES_DIFFER in rank.evidence.stderr_end]
    if not its:
        return None
    culprits = tuple(seen.ranks) if len(seen.ranks) == seen.world_size == 2 else ()  # noqa: PLR2004
    got = f"{_ranks(its, 'have')} got more than expected"
    text = f"the ranks give a collective different sizes: {got}"
    return Verdict("mismatch", culprits, "", "", text, "likely" if culprits else "none")


def _gone(seen: _Seen) -> Verdict | None:
    gone = [number for number, rank in seen.ranks.items() if rank.has_ended]
    failed = [number for number in gone if seen.ranks[number].evidence.exit_code]
    echoing = [number for number, rank in seen.ranks.items() if _echoes(rank.evidence)]
    if not gone or not (failed or echoing or seen.waiting):
        return None  # Those that have not ended may be at fault as well.
    causes = [number for number in failed if _is_cause(seen.ranks[number].evidence)]
    by_itself = [number for number in failed if number not in echoing]
    culprits = causes or by_itself or [n for n in gone if n not in (*failed, *echoing)]
    hows = []
    for number in culprits or failed:
        code, killed = seen.ranks[number].evidence.exit_code, seen.ranks[number].killed
        with_code = "" if code is None else f" with exit code {code}"
        hows.append(f"rank {number} has ended{with_code}{killed}")
    how = " and ".join(hows)
    if not culprits or (failed and len(culprits) > 1):
        return Verdict("gone", (), "", "", f"{how}: which was first is not known", "none")
    return seen.accuse("gone", culprits, how, "certain")


def _is_cause(evidence: Evidence) -> bool:
    """Tell whether a rank has failed by itself, not because another one had."""
    was_stopped = evidence.exit_code in _STOPPED_BY and not evidence.out_of_memory_kills
    return not was_stopped and not _echoes(evidence)


def _echoes(evidence: Evidence) -> bool:
    """Tell whether it says that another rank is gone."""
    return any(echo in evidence.stderr_end for echo in _ECHOES)


def _stopped(seen: _Seen) -> Verdict | None:
    found = [number for number, rank in seen.alive.items() if rank.processes_in(_STOPPED)]
    return _by_state(seen, "stopped", found, _STOPPED) if found else None


def _on_device(seen: _Seen) -> Verdict | None:
    """Accuse who waits for a device, unless another rank is late or all of them wait so."""
    found = [
        number
        for number, rank in seen.alive.items()
        if rank.processes_in(_ON_DEVICE) and (number in seen.behind or _is_itself_on_device(rank))
    ]
    culprits = [number for number in found if number in seen.behind or not seen.behind]
    if not culprits or len(culprits) == seen.world_size > 1:
        return None
    return _by_state(seen, "device", culprits, _ON_DEVICE)


def _is_itself_on_device(rank: _Rank) -> bool:
    """Tell whether it is not a helper of it, which may read a disk at any moment."""
    pids = {rank.evidence.processes[0].pid, rank.main.pid if rank.main else None}
    return any(process.pid in pids for process in rank.processes_in(_ON_DEVICE))


def _by_state(seen: _Seen, kind: str, culprits: Sequence[int], states: str) -> Verdict:
    hows = []
    for number in culprits:
        rank = seen.ranks[number]
        process = rank.processes_in(states)[0]
        is_first = process is rank.evidence.processes[0]
        who = f"rank {number}" if is_first else f"process {process.pid} of rank {number}"
        how = "is stopped" if kind == "stopped" else "waits for a device"
        waits_in = f" in {process.waits_in}" if kind == "device" and process.waits_in else ""
        hows.append(f"{who} {how}{waits_in}" + (f", at {_marked(rank.at)}" if rank.at else ""))
    certainty = "certain" if kind == "stopped" else "likely"
    return seen.accuse(kind, culprits, " and ".join(hows), certainty)


def _behind(seen: _Seen) -> Verdict | None:
    if not seen.behind:
        return None
    is_certain = not seen.missing and all(seen.ranks[number].at for number in seen.behind)
    how = seen.describe(seen.behind)
    return seen.accuse("behind", seen.behind, how, "certain" if is_certain else "likely")


def _mismatch(seen: _Seen) -> Verdict | None:
    """Accuse who calls another collective than most, at the same number; of two ranks both."""
    for group in seen.groups:
        numbers, names = ({f(one) for one in group.values()} for f in (_number, _name))
        if len(numbers) > 1 or not any(numbers):
            continue
        calls: dict[str, list[int]] = {}
        for number, one in group.items():
            calls.setdefault(_call(one) if len(names) == 1 else _spell(one), []).append(number)
        if len(calls) == 1:
            continue
        most = max(calls.values(), key=len)
        culprits = [number for number in group if number not in most]
        if len(most) * 2 <= len(group):
            culprits = [*group] if len(group) == 2 else []  # noqa: PLR2004
        how = " and ".join(f"{_ranks(there, 'be')} in {call}" for call, there in calls.items())
        frames = ((number, seen.ranks[number].at) for number in culprits)
        its = (f"rank {number} at {_marked(frame)}" for number, frame in frames if frame)
        how = f"the ranks call different collectives: {'; '.join((how, *its))}"
        found = seen.accuse("mismatch", culprits, how, "likely" if culprits else "none")
        return replace(found, sentence=how)
    return None


def _network(seen: _Seen) -> Verdict | None:
    """Accuse nobody where all ranks are in the same collective, which does not end."""
    for group in seen.groups:
        one = next(iter(group.values()))
        is_same = {(each.number, each.retired) for each in group.values()} == {(one.number, False)}
        if is_same and len(group) == seen.world_size > 1:
            text = f"all ranks are in {_spell(one)}, so it may be the network between them"
            return Verdict("network", (), "", f"{_name(one)} {one.number}", text, "likely")
    return None


def _odd(seen: _Seen) -> Verdict | None:
    """Accuse the few that are in code of their own where all others wait in the same line."""
    if seen.missing or len(seen.alive) < len(seen.ranks) or any(_entered(seen)):
        return None
    tells = any(seen.groups)
    waits = [n for n, one in seen.ranks.items() if (one.waits if tells else one.is_in_framework)]
    odd = [number for number in seen.ranks if number not in waits]
    lines = {seen.ranks[number].at for number in waits}
    if len(lines) != 1 or not odd or len(odd) > len(waits):
        return None
    if not all(seen.ranks[number].at for number in odd):
        return None
    how = f"{seen.describe(odd)}; {seen.describe(waits)}"
    return replace(seen.accuse("behind", odd, how, "likely"), sentence=how)


def _shared(seen: _Seen) -> Verdict | None:
    """Name the frame that all ranks are at, none of which is in a collective."""
    frames = {rank.at for rank in seen.ranks.values()}
    frame = next(iter(frames), None)
    if len(frames) != 1 or frame is None or seen.missing or any(_entered(seen)):
        return None
    who = "all ranks are" if seen.world_size > 1 else "rank 0 is"
    return Verdict("shared", (), spell_frame(frame), "", f"{who} at {_marked(frame)}", "likely")


def _entered(seen: _Seen) -> Iterator[Collective]:
    return (one for rank in seen.ranks.values() if (one := rank.waits_in))


def _unknown(seen: _Seen) -> Verdict:
    silent = f"{_ranks(seen.missing, 'have')} told nothing" if seen.missing else ""
    ended = [number for number, rank in seen.ranks.items() if rank.has_ended]
    over = f"{_ranks(ended, 'have')} ended" if ended else ""
    parts = filter(None, (seen.describe(seen.alive), over, silent))
    return Verdict("unknown", (), "", "", f"cannot tell: {'; '.join(parts)}", "none")


_RULES: tuple[Callable[[_Seen], Verdict | None], ...] = (
    _goes_on,
    _sizes_differ,
    _gone,
    _stopped,
    _on_device,
    _behind,
    _mismatch,
    _network,
    _odd,
    _shared,
    _unknown,
)


def _number(one: Collective) -> int:
    return one.number


def _name(one: Collective) -> str:
    return one.name.rpartition(":")[2] or "collective"


def _spell(one: Collective) -> str:
    return f"{_name(one).replace('_', '-')} {one.number}"


def _call(one: Collective) -> str:
    """Spell a collective with the shapes that all ranks have to agree in."""
    if _name(one) not in _SAME_SIZES:
        return _spell(one)
    shapes = ", ".join("x".join(map(str, shape)) or "1" for shape in one.sizes)
    return f"{_spell(one)} of {shapes}"


def _marked(frame: Frame) -> str:
    return f"`{frame.function}` ({PurePosixPath(frame.file).name}:{frame.line})"


def _ranks(numbers: Sequence[int], verb: str) -> str:
    """Return ``rank 1 waits`` or ``ranks 0, 2 and 3 wait``."""
    one, several = {"be": ("is", "are"), "have": ("has", "have")}.get(verb, (f"{verb}s", verb))
    if len(numbers) == 1:
        return f"rank {numbers[0]} {one}"
    return f"ranks {join([str(number) for number in numbers])} {several}"
