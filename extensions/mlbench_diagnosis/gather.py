"""Gather the evidence of a rank: each source has a time limit, and cannot block the others.

Gathering happens only on request, so that runs without a hang have no cost.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path

from mlbench.contract import names
from mlbench.contract.diagnosis import Evidence, Process, Thread
from mlbench.contract.limits import MAX_EVIDENCE_BYTES
from mlbench.contract.masking import mask_words
from mlbench.contract.phase_mark import mark_of, phase_in
from mlbench.contract.process import this_process
from mlbench.tracking.totals import Totals
from mlbench_diagnosis.collectives import find_collectives, left_collectives
from mlbench_diagnosis.rank_stacks import Pipe, find_spy, parse_traceback, spy
from mlbench_worker.agent import kernel, torchrun
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.external_usage import free_memory, read_usage
from mlbench_worker.agent.process_lookup import (
    environ_of,
    is_python,
    other_process,
    state_of,
)
from mlbench_worker.agent.stream_files import StreamFile, read_regular, text_of

_END_BYTES = 8 << 10
_MAX_PROCESSES, _MAX_COMMAND_LENGTH = 64, 200
_MAX_RECORDS, _MAX_GPU_ERRORS = 10_000, 16
_NATIVE_BYTES = 500_000_000
_DEVICE, _STOPPED, _ENDED, _PASSING = "D", "Tt", "ZX", "DZ"

_Reader = Callable[[int], Sequence[Thread]]


def gather(
    attempt: Attempt, root: int | None, progress: Totals, native_rank: int | None = None
) -> Evidence:
    """Return the evidence of a rank, gathered in a few seconds, of bounded size.

    The rank's processes are ``root`` and its descendants. C frames are included for ``native_rank``
    only, if that is a rank of these processes.
    """
    began, at = time.monotonic(), time.time()
    missing: list[str] = []
    processes: list[Process] = []
    if attempt.exit is None and root is not None:
        processes = _find_processes(root, attempt.diagnosis)
    ranks = {process.pid: process.rank for process in processes if process.rank is not None}
    stderr_end = _end(attempt.streams["stderr"])
    if attempt.exit is None:
        collectives = find_collectives(attempt.diagnosis, ranks)
    else:
        collectives = left_collectives(attempt.diagnosis)
    threads, stacks_by = _stacks(attempt.diagnosis, processes, missing)
    if not threads:  # the rank has failed, or is failing
        own = torchrun.lines_of(stderr_end, str(attempt.assignment.rank))
        threads = parse_traceback(attempt.pid or 0, own)
        stacks_by = "traceback" if threads else ""
    time.sleep(0.1)
    # Look again: a state that may be momentary counts only if it was the same before.
    for index, process in enumerate(processes):
        if (state := state_of(process.pid)) not in _PASSING:
            processes[index] = replace(process, state=state)
    processes = [process for process in processes if process.state != "X" or process.pid == root]
    usage: Mapping[str, int] = {}
    with suppress(OSError, ValueError, KeyError):
        usage = {name: int(value) for name, value in read_usage(root).items()}
    gpu_errors = tuple(islice(_gpu_errors(attempt.began, missing), _MAX_GPU_ERRORS))
    measured = attempt.measured
    quiet_seconds = max(0.0, at - progress.progress_at) if progress.progress_at else None
    numbers = {collective.group: collective.number for collective in collectives}
    for collective in find_collectives(attempt.diagnosis) if collectives else ():
        if collective.number > numbers.get(collective.group, collective.number):
            quiet_seconds = 0.0  # it has entered a collective since the first look
    failure = attempt.failure
    if not failure and attempt.exit is not None and attempt.exit.code != 0:
        # The last error in the log, or else its last line.
        text = _end(attempt.streams["stderr"]).strip()
        failure = torchrun.last_error(text, str(attempt.assignment.rank))
        failure = failure or text.rpartition("\n")[2]
    native: Sequence[Thread] = ()
    if native_rank is not None and native_rank in (ranks.values() or [attempt.assignment.rank]):
        candidates = [process for process in processes if not ranks or process.rank == native_rank]
        native = _native(candidates, threads, root, missing)
    evidence = Evidence(
        rank=attempt.assignment.rank,
        at=at,
        gathered_in_seconds=0.0,
        steps=progress.steps,
        exit_code=attempt.exit.code if attempt.exit else None,
        processes=tuple(processes),
        threads=tuple(threads),
        stacks_by=stacks_by,
        collectives=collectives,
        memory_bytes=usage.get("container_memory_usage_bytes"),
        memory_limit_bytes=usage.get("container_spec_memory_limit_bytes"),
        out_of_memory_kills=max(0, attempt.out_of_memory_kills),
        throttled_seconds=measured.throttled_seconds if measured else None,
        stdout_end=_end(attempt.streams["stdout"]),
        stderr_end=stderr_end,
        gpu_errors=gpu_errors,
        missing=tuple(missing),
        quiet_seconds=quiet_seconds,
        usual_step_seconds=progress.step_seconds / progress.steps if progress.steps else None,
        failure=failure,
        ranks=tuple(sorted({*ranks.values()})),
        world_size=max((this_process(environ_of(pid)).world_size for pid in ranks), default=0),
        native=tuple(native),
    )
    # Drop the last threads of evidence that is too large.
    while evidence.native and len(json.dumps(asdict(evidence))) > MAX_EVIDENCE_BYTES // 2:
        evidence = replace(evidence, native=evidence.native[: len(evidence.native) // 2])
    while evidence.threads and len(json.dumps(asdict(evidence))) > MAX_EVIDENCE_BYTES:
        fewer = evidence.threads[: len(evidence.threads) // 2]
        words = f"stacks: only {len(fewer)} threads are kept"
        evidence = replace(evidence, threads=fewer, missing=(*evidence.missing, words))
    return replace(evidence, gathered_in_seconds=time.monotonic() - began)


def _find_processes(root: int, diagnosis: Path) -> list[Process]:
    """Return a process and its descendants, in the order of their start.

    ``diagnosis`` is the folder with the marks of their phases.
    """
    table = kernel.process_table()
    own = {root, *kernel.descendants_in(table, root)} & table.keys()
    in_order = sorted(own - {os.getpid()}, key=lambda pid: (pid != root, table[pid].began, pid))
    processes = []
    for entry in (table[pid] for pid in in_order[:_MAX_PROCESSES]):
        folder, state = Path(f"/proc/{entry.pid}"), state_of(entry.pid)
        # Reading the command of a process that waits for a device may block.
        is_hidden = state == _DEVICE or names.ENV_HIDE_COMMAND in os.environ
        words = [] if is_hidden else text_of(folder / "cmdline").split("\0")
        wait_channel = text_of(folder / "wchan")
        phase = phase_in(read_regular(mark_of(diagnosis, entry.pid), 1) or b"") or ""
        process = Process(entry.pid, entry.parent, entry.name, "X", "", 0, phase=phase)
        with suppress(OSError):
            threads = len(os.listdir(folder / "task"))  # noqa: PTH208 - in half the time
            run_process = None if state == _DEVICE else other_process(entry.pid)
            process = replace(
                process,
                command=(" ".join(mask_words(words)).strip() or entry.name)[:_MAX_COMMAND_LENGTH],
                state=state,
                waits_in="" if wait_channel == "0" else wait_channel,
                threads=threads,
                rank=run_process.rank if run_process else None,
            )
        processes.append(process)
    return processes


def _stacks(
    folder: Path, processes: Sequence[Process], missing: list[str]
) -> tuple[list[Thread], str]:
    """Return the threads of all Pythons, and the name of the reader of the first of them."""
    until = time.monotonic() + 5.0
    threads_of_all: list[Thread] = []
    first_by = ""
    program = find_spy()
    with ExitStack() as leaving:
        pipe = None
        with suppress(OSError):
            pipe = leaving.enter_context(closing(Pipe(folder / "stacks")))
        for process in processes:
            if time.monotonic() > until:
                words = f"stacks: no time was left for process {process.pid}, and later ones"
                missing.append(words)
                break
            readers: dict[str, _Reader] = {}
            if program and process.state not in _ENDED:
                readers["py-spy"] = partial(spy, program)
            if pipe and process.state not in (_ENDED + _STOPPED + _DEVICE):
                readers["faulthandler"] = pipe.ask
            failures = []
            for by, read in readers.items():
                try:
                    if threads := read(process.pid):
                        threads_of_all += threads
                        first_by = first_by or by
                        break
                except OSError as error:
                    failures.append(f"{by}: {error}")
            else:
                if failures and is_python(process.pid):
                    missing.append(f"stacks of process {process.pid}: {'; '.join(failures)}")
    return threads_of_all, first_by


def _native(
    processes: Sequence[Process], threads: Sequence[Thread], root: int | None, missing: list[str]
) -> Sequence[Thread]:
    """Return the threads of the first Python among the processes, with C frames.

    py-spy needs hundreds of megabytes for that, and stops the process meanwhile.
    """
    pythons = {thread.pid for thread in threads}
    process = next((process for process in processes if process.pid in pythons), None)
    program = find_spy()
    try:
        if process is None or program is None:
            raise OSError("no Python process with a known stack" if program else "no py-spy")
        if process.state in _STOPPED + _DEVICE:
            raise OSError(f"process {process.pid} is in state {process.state}")
        if free_memory(root) < _NATIVE_BYTES:
            raise OSError(f"they take up to {_NATIVE_BYTES // 10**6} MB, which are not free")
        return spy(program, process.pid, native=True)
    except OSError as error:
        missing.append(f"frames of C: {error}")
        return ()


def _end(stream: StreamFile) -> str:
    """Return the end of a log, with secrets masked as in the shipped log."""
    begin = max(0, stream.size() - _END_BYTES)
    return stream.read(begin, _END_BYTES).decode(errors="replace")


def _gpu_errors(since: float, missing: list[str]) -> Iterator[str]:
    """Yield the messages about GPU errors in the kernel's log, if it can be read.

    ``since`` is a time of the monotonic clock, as in the log.
    """
    try:
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        missing.append(f"the kernel's log: {error.strerror}")
        return
    with suppress(BlockingIOError, ValueError, IndexError), closing(os.fdopen(log, "rb")):
        for _ in range(_MAX_RECORDS):
            with suppress(BrokenPipeError):  # the oldest records have been overwritten
                about, _, text = os.read(log, _END_BYTES).decode(errors="replace").partition(";")
                if "NVRM: Xid" in text and int(about.split(",")[2]) / 1e6 > since:
                    yield text.partition("\n")[0][:_MAX_COMMAND_LENGTH]
