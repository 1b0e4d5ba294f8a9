"""The stacks of the ranks of a run: where each is, and all of them as one tree. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from mlbench.contract.autopsy import Evidence, Frame, StackLine, Thread


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
