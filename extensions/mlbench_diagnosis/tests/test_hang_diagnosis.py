"""The verdict of a hang diagnosis: the ranks at fault, or that nobody can be blamed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from mlbench.contract.diagnosis import Collective, Evidence, Thread
from mlbench_diagnosis.judgement import judge, merge_stacks, split
from tests.support.evidence import (
    BACKWARD,
    C10D,
    JAX,
    LOAD,
    LOADER,
    LOCK,
    MAIN,
    STEP,
    TRAINING,
    entered,
    over,
)
from tests.support.evidence import evidence_of as rank

CLOSED = "RuntimeError: Connection closed by peer [::1]"
LARGER = "[enforce fail at pair.cc:454] op.preamble.length <= op.nbytes. 120000 vs 12"


def waiting(*numbers: int) -> list[Evidence]:
    return [rank(number, entered(22)) for number in numbers]


LATE = rank(1, over(21), at=(LOCK, LOAD, MAIN))
ALL_IN = "all ranks are in {} 22, so it may be the network between them"
LOADING = "rank 1 is at `load_batch` (data.py:41)"
OTHER = "rank 0 waits for it in all-reduce 22"
OTHERS = "ranks 0, 2 and 3 wait for it in all-reduce 22"
FAILED_BY_PEER = rank(0, exit_code=1, stderr_end=CLOSED)
ABORTED = rank(0, exit_code=-6, at=(), stderr_end=LARGER)


def in_phase(number: int, phase: str, *frames: Any) -> Evidence:
    """Return a rank in a phase of its code; its framework reports no collectives."""
    its = rank(number, at=frames or (STEP, MAIN))
    [process] = its.processes
    return replace(its, processes=(replace(process, phase=phase),))


@dataclass(frozen=True)
class Case:
    """Evidence of ranks, and the expected verdict. By default, rank 1 is late."""

    evidence: Sequence[Evidence]
    sentence: str
    kind: str = "not_in_collective"
    at_fault: tuple[int, ...] = (1,)
    silent: int = 0
    """Number of ranks that have sent no evidence."""


def nobody(
    evidence: Sequence[Evidence], sentence: str, kind: str = "unknown", silent: int = 0
) -> Case:
    """Return a case in which no rank is at fault."""
    return Case(evidence, sentence, kind, (), silent)


_AT_FAULT = {
    "late in its own code": Case([*waiting(0, 2, 3), LATE], f"{LOADING}; {OTHERS}"),
    "of two ranks": Case([*waiting(0), LATE], f"{LOADING}; {OTHER}"),
    "several are late": Case(
        [*waiting(0), LATE, rank(2, over(21), at=(LOAD, MAIN)), rank(3, over(21), at=(MAIN,))],
        "ranks 1 and 2 are at `load_batch` (data.py:41); rank 3 is at `<module>` "
        "(train.py:50); rank 0 waits for them in all-reduce 22",
        at_fault=(1, 2, 3),
    ),
    "late, and another one is silent": Case(
        [*waiting(0, 2), LATE],
        f"{LOADING}; ranks 0 and 2 wait for it in all-reduce 22; rank 3 has sent no evidence",
        silent=1,
    ),
    "a data loader's worker has died": Case(
        [*waiting(0, 2, 3), rank(1, over(21), at=(LOADER, STEP, MAIN), states="SZ")],
        f"rank 1 is at `step` (train.py:12) (its process 201, python, has died); {OTHERS}",
    ),
    "late, without a stack": Case(
        [*waiting(0, 2, 3), rank(1, over(21), at=(), stacks_by="")],
        f"rank 1 is at a place that is not known; {OTHERS}",
    ),
    "groups of processes": Case(
        # Rank 0 waits for rank 1 in a group of two, so it is late for ranks 2 and 3.
        [
            rank(0, over(5), entered(9, group="1")),
            rank(1, over(5), over(8, group="1"), at=(LOAD, MAIN)),
            *(rank(n, entered(6), over(9, group="2")) for n in (2, 3)),
        ],
        f"{LOADING}; ranks 0, 2 and 3 wait for it in all-reduce 9",
    ),
    "another rank waits in a point-to-point operation": Case(
        # Rank 2 receives from rank 1. PyTorch does not number point-to-point operations.
        [*waiting(0, 3), LATE, rank(2, over(21), at=(C10D, STEP, MAIN))],
        f"{LOADING}; {OTHERS}",
    ),
    "failed": Case(
        [*waiting(0, 2, 3), rank(1, over(21), states="", exit_code=1)],
        f"rank 1 has ended with exit code 1; {OTHERS}",
        "exited",
    ),
    "left": Case(
        [*waiting(0, 2, 3), rank(1, over(21), states="", exit_code=0)],
        f"rank 1 has ended with exit code 0; {OTHERS}",
        "exited",
    ),
    "killed for lack of memory": Case(
        [*waiting(0, 2, 3), rank(1, over(21), exit_code=-9, out_of_memory_kills=1)],
        f"rank 1 has ended with exit code -9 (the kernel killed it for lack of memory); {OTHERS}",
        "exited",
    ),
    "others fail because one rank failed": Case(
        [FAILED_BY_PEER, rank(1, exit_code=3, stderr_end="ValueError"), rank(2, exit_code=-15)],
        "rank 1 has ended with exit code 3",
        "exited",
    ),
    "the other rank fails because one has exited": Case(
        [FAILED_BY_PEER, rank(1, exit_code=0)], "rank 1 has ended with exit code 0", "exited"
    ),
    "two ranks disagree on sizes, gloo aborts one": Case(
        [ABORTED, rank(1, at=(), exit_code=1, stderr_end=CLOSED)],
        "the ranks give a collective different sizes: rank 0 has got more than expected",
        "mismatch",
        (0, 1),
    ),
    "one rank disagrees on sizes, gloo aborts another one": Case(
        [
            *(ABORTED, *waiting(1, 3)),
            rank(2, entered(22, sizes=((9, 3),)), exit_code=1, stderr_end=CLOSED),
        ],
        "the ranks give a collective different sizes: rank 0 has got more than expected: ranks "
        "1 and 3 are in all-reduce 22 of 4 and rank 2 is in all-reduce 22 of 9x3; rank 2 at "
        "`step` (train.py:12)",
        "mismatch",
        (2,),
    ),
    "stopped": Case(
        [*waiting(0, 2, 3), rank(1, entered(22), states="T")],
        f"rank 1 is stopped, at `step` (train.py:12); {OTHERS}",
        "stopped",
    ),
    "a process of the rank is stopped": Case(
        [*waiting(0), rank(1, over(21), at=(LOADER, STEP, MAIN), states="ST")],
        f"process 201 of rank 1 is stopped, at `step` (train.py:12); {OTHER}",
        "stopped",
    ),
    "waits for a device": Case(
        [*waiting(0, 2, 3), rank(1, over(21), at=(LOAD, MAIN), states="D")],
        f"rank 1 waits for a device in nfs_wait, at `load_batch` (data.py:41); {OTHERS}",
        "blocked_io",
    ),
    "late while another rank waits for a disk": Case(
        # Rank 2 is in a disk wait at the moment, but has entered the collective.
        [*waiting(0, 3), LATE, rank(2, entered(22), states="D")],
        f"{LOADING}; {OTHERS}",
    ),
    "another collective": Case(
        [*waiting(0, 2, 3), rank(1, entered(22, "broadcast"), at=(C10D, LOAD, MAIN))],
        "the ranks call different collectives: ranks 0, 2 and 3 are in all-reduce 22 and "
        "rank 1 is in broadcast 22; rank 1 at `load_batch` (data.py:41)",
        "mismatch",
    ),
    "different sizes on two ranks": Case(
        [*waiting(0), rank(1, entered(22, sizes=((2, 3), ())))],
        "the ranks call different collectives: rank 0 is in all-reduce 22 of 4 and rank 1 is "
        "in all-reduce 22 of 2x3, 1; rank 0 at `step` (train.py:12); rank 1 at `step` "
        "(train.py:12)",
        "mismatch",
        (0, 1),
    ),
    "only stacks": Case(
        [rank(n, at=(JAX, STEP, MAIN)) for n in (0, 2)] + [rank(1, at=(LOAD, MAIN))],
        f"{LOADING}; ranks 0 and 2 are at `step` (train.py:12)",
    ),
    "ranks wait outside a numbered collective": Case(
        [*(rank(n, over(21)) for n in (0, 2)), LATE],
        f"{LOADING}; ranks 0 and 2 are at `step` (train.py:12)",
    ),
}
_NOBODY_AT_FAULT = {
    "none": nobody([], "cannot tell: ranks 0 and 1 have sent no evidence", silent=2),
    "a network that is cut": nobody(waiting(0, 1, 2), ALL_IN.format("all-reduce"), "network"),
    "a helper process waits for a disk": nobody(
        [*waiting(0, 2), rank(1, entered(22), states="SD")], ALL_IN.format("all-reduce"), "network"
    ),
    "the rank that may be at fault has not reported": nobody(
        waiting(0, 2, 3),
        "cannot tell: ranks 0, 2 and 3 are in all-reduce 22; rank 1 has sent no evidence",
        silent=1,
    ),
    "all at the same frame": nobody(
        [rank(n, over(21), at=(LOAD, MAIN)) for n in range(3)],
        "all ranks are at `load_batch` (data.py:41)",
        "same_line",
    ),
    "all wait for the same device": nobody(
        [rank(n, at=(LOAD, MAIN), states="D") for n in range(3)],
        "all ranks are at `load_batch` (data.py:41)",
        "same_line",
    ),
    "the rank behind waits as well": nobody(
        [*waiting(0, 2), rank(1, entered(21))],
        "cannot tell: ranks 0 and 2 are in all-reduce 22; rank 1 is in all-reduce 21",
    ),
    "one rank has left the collective already": nobody(
        [*waiting(0, 2), rank(1, over(22), at=(LOAD, MAIN))],
        f"cannot tell: ranks 0 and 2 are in all-reduce 22; {LOADING}",
    ),
    "long steps": nobody(
        [replace(one, usual_step_seconds=25.0) for one in (*waiting(0), LATE)],
        "it may progress: its last step was 60 s ago, and a step takes 25 s",
        "progressing",
    ),
    "progress": nobody(
        [rank(0, entered(22), quiet_seconds=0.2), LATE],
        "the run progresses: rank 0 has just done a step",
        "progressing",
    ),
    "two have failed": nobody(
        [rank(0, exit_code=1), rank(1, exit_code=-11), rank(2, over(21))],
        "rank 0 has ended with exit code 1 and rank 1 has ended with exit code -11: which was "
        "first is not known",
        "exited",
    ),
    "one rank has failed because of another one without evidence": nobody(
        [FAILED_BY_PEER, rank(1, over(21))],
        "rank 0 has ended with exit code 1: which was first is not known",
        "exited",
        silent=1,
    ),
    "gloo has aborted a rank that may be right": nobody(
        [ABORTED, *waiting(1, 2)],
        "the ranks give a collective different sizes: rank 0 has got more than expected: ranks "
        "1 and 2 are in all-reduce 22 of 4",
        "mismatch",
        silent=1,
    ),
    "one rank has exited and no rank waits for it": nobody(
        [rank(0, over(30), at=(LOAD, MAIN)), rank(1, over(30), exit_code=0)],
        "cannot tell: rank 0 is at `load_batch` (data.py:41); rank 1 has ended",
    ),
    "two against two": nobody(
        [rank(n, entered(22, name)) for n, name in enumerate(["broadcast", "all_gather"] * 2)],
        "the ranks call different collectives: ranks 0 and 2 are in broadcast 22 and ranks 1 "
        "and 3 are in all-gather 22",
        "mismatch",
    ),
    "sizes that may differ": nobody(
        [rank(0, entered(22, "scatter", ((4,), (4,)))), rank(1, entered(22, "scatter", ()))],
        ALL_IN.format("scatter"),
        "network",
    ),
    "only stacks, all in the framework": nobody(
        [rank(0, at=(JAX, STEP, MAIN)), rank(1, at=(JAX, LOAD, MAIN))],
        f"cannot tell: rank 0 is at `step` (train.py:12); {LOADING}",
    ),
    "one rank without a stack": nobody(
        [rank(0, at=(BACKWARD, STEP, MAIN)), rank(1, at=()), rank(2, at=(LOAD, MAIN))],
        "cannot tell: rank 0 is at `step` (train.py:12); rank 1 is at a place that is not "
        "known; rank 2 is at `load_batch` (data.py:41)",
    ),
    "a shell": nobody([rank(0, at=())], "cannot tell: rank 0 is at a place that is not known"),
}
_CASES = _AT_FAULT | _NOBODY_AT_FAULT


@pytest.mark.parametrize("case", _CASES.values(), ids=_CASES)
def test_ranks_are_blamed_only_with_evidence(case: Case) -> None:
    found = judge(case.evidence, len(case.evidence) + case.silent)
    expected = (case.kind, case.at_fault, case.sentence)
    assert (found.kind, found.at_fault, found.sentence) == expected
    assert found.certainty in ("certain", "likely") or not case.at_fault


def test_the_only_rank_outside_the_phase_communication_is_at_fault() -> None:
    inside = [in_phase(0, "communication"), in_phase(2, "communication", MAIN)]
    found = judge([*inside, in_phase(1, "data", LOAD, MAIN)], 3)
    assert (found.kind, found.at_fault, found.certainty) == ("not_in_collective", (1,), "likely")
    assert found.sentence == f"{LOADING}; ranks 0 and 2 wait in the phase communication"
    assert judge([*inside, in_phase(1, "", LOAD, MAIN)], 3).at_fault == (1,)
    # All ranks are in the phase, none is, only one is, or one rank has reported nothing.
    for evidence in (
        [*inside, in_phase(1, "communication", LOAD, MAIN)],
        [in_phase(0, ""), in_phase(2, "", MAIN), in_phase(1, "", LOAD, MAIN)],
        [in_phase(0, "communication"), in_phase(1, "data", LOAD), in_phase(2, "data", MAIN)],
        inside,
    ):
        assert judge(evidence, 3).at_fault == ()


def test_the_verdict_names_the_line_of_a_stuck_data_loader_worker() -> None:
    loop = replace(
        LOADER, function="_worker_loop", file=LOADER.file.replace("dataloader", "_utils/worker")
    )
    parent = (LOADER, STEP, MAIN)
    late = rank(1, over(21), at=parent, states="SSS")
    main, idle, stuck = (process.pid for process in late.processes)
    workers = (
        Thread(main, "MainThread", True, parent),
        # Forked workers inherit the frames of the training.
        Thread(idle, "MainThread", True, (LOCK, loop, *parent)),
        Thread(stuck, "MainThread", True, (LOCK, LOAD, loop, *parent)),
    )
    place = "rank 1 is at `step` (train.py:12)"
    told = judge([*waiting(0), replace(late, threads=workers)], 2).sentence
    assert told == f"{place} (its data loader's worker is at `load_batch` (data.py:41)); {OTHER}"
    told = judge([*waiting(0), replace(late, threads=workers[:2])], 2).sentence
    assert told == f"{place}; {OTHER}"


def test_a_verdict_has_a_frame_and_a_collective() -> None:
    found = judge([*waiting(0), LATE], 2)
    assert (found.where, found.collective) == ("load_batch (data.py:41)", "all_reduce 22")
    assert found.certainty == "certain"
    assert judge([*waiting(0), LATE], 3).certainty == "likely"


def test_the_latest_evidence_of_a_rank_is_used() -> None:
    later = replace(rank(1, entered(22)), at=LATE.at + 5)
    assert judge([later, *waiting(0), LATE], 2).kind == "network"


def worker(first: int, *collectives: Collective, **changed: Any) -> Evidence:
    """Return the evidence of a torchrun worker with two ranks, the second of which is late."""
    pair = [rank(first, *collectives[:1]), rank(first + 1, *collectives[1:], at=(LOAD, MAIN))]
    shell = rank(first, states="S", at=()).processes[0]
    its: dict[str, Any] = {
        "processes": tuple(replace(p, rank=e.rank) for e in pair for p in e.processes),
        "threads": tuple(thread for e in pair for thread in e.threads),
        "collectives": tuple(replace(c, rank=e.rank) for e in pair for c in e.collectives),
    }
    its["processes"] = (replace(shell, pid=9), *its["processes"])
    return replace(pair[0], **its | {"rank": first // 2, "ranks": (first, first + 1)} | changed)


def test_each_torchrun_process_is_a_rank() -> None:
    told = [worker(0, entered(22), entered(22)), worker(2, entered(22), over(21))]
    evidence = [each for one in told for each in split(one)]
    assert [one.rank for one in evidence] == [0, 1, 2, 3]
    sentence = "rank 3 is at `load_batch` (data.py:41); ranks 0, 1 and 2 wait for it in"
    assert judge(evidence, 4).sentence == f"{sentence} all-reduce 22"
    assert [each for one in evidence for each in split(one)] == evidence


def test_torchrun_names_the_failed_rank_of_a_worker() -> None:
    ended = {"exit_code": 1, "processes": (), "threads": (), "collectives": ()}
    failure = "rank 3: RuntimeError: diverged (train.py:12)"
    workers = [worker(0, entered(22), entered(22)), worker(2, **ended, failure=failure)]
    verdict = judge([each for evidence in workers for each in split(evidence)], 4)
    assert verdict.at_fault == (3,)
    assert verdict.sentence == (
        "rank 3 has ended with exit code 1 (RuntimeError: diverged (train.py:12)); ranks 0 and 1 "
        "wait for it in all-reduce 22"
    )
    unknown = replace(workers[1], failure="")
    assert judge([*split(workers[0]), *split(unknown)], 4).at_fault == ()


def test_the_main_thread_is_taken_from_the_first_python_process() -> None:
    others = Thread(101, "MainThread", True, TRAINING), Thread(102, "MainThread", True, (LOAD,))
    shell = rank(0, states="SSS", threads=(*reversed(others), Thread(101, "t", False, (JAX,))))
    [root, *_] = merge_stacks([shell])
    assert root.frame == MAIN


def test_stacks_are_merged_into_one_tree() -> None:
    lines = merge_stacks([*waiting(0, 2, 3), LATE, rank(4, at=())])
    assert [(line.depth, line.frame, line.here, line.elsewhere) for line in lines] == [
        (0, MAIN, (0, 1, 2, 3), ()),
        (1, STEP, (0, 2, 3), (1,)),
        (2, C10D, (0, 2, 3), ()),
        (1, LOAD, (1,), (0, 2, 3)),
        (2, LOCK, (1,), ()),
    ]
