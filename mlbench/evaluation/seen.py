"""What is seen of the ranks of a run that does not go on, at a glance. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

from mlbench.contract.autopsy import Collective, Evidence, Frame, Process, Thread, Verdict
from mlbench.contract.words import join
from mlbench.evaluation.stacks import main_thread, mark_frame, package_of, spell_frame

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
