"""Checkpoints: the state of a training after a step, from which a restarted run resumes.

Every rank writes into the folder of its own worker, so the workers need no shared storage. A
checkpoint does not contain the state of random generators: tasks seed them for each epoch.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol
from zipfile import BadZipFile, ZipFile

import torch

from mlbench_worker.ranks.distributed import World

_State = dict[str, Any]


class Stateful(Protocol):
    """An object such as a model or an optimizer, with a state of tensors and plain values."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any], /) -> object: ...


class Plain:
    """Base of classes whose state is all their attributes, which are plain values."""

    def state_dict(self) -> dict[str, Any]:
        return vars(self).copy()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


class Checkpoints:
    """A rank's checkpoints of a run: one file for each of the last two saved steps."""

    def __init__(self, folder: Path, world: World, parts: Mapping[str, Stateful]) -> None:
        self._folder = folder
        self._world = world
        self._parts = parts
        self._warned = False

    def restore(self) -> int:
        """Load the newest checkpoint of all ranks, or else of any rank, into the parts.

        If a save was interrupted, some ranks lack the newest checkpoint: all ranks load the one
        before. If the first save was interrupted, all ranks start from the beginning. A rank on a
        new worker has no checkpoints: it loads the newest one of the lowest rank that has it,
        including that rank's own state, such as the tracker's samples.

        Returns:
            The number of steps done, the same on all ranks; 0 without a checkpoint.
        """
        was_here, saved = self._folder.is_dir(), len(self._steps_here())
        with suppress(OSError):  # ``save`` reports it
            self._folder.mkdir(parents=True, exist_ok=True)
        # A restarted rank has saved nothing, and no rank more than once.
        if any(self._gather(was_here and not saved)) and max(self._gather(saved)) == 1:
            return 0
        steps, state = self._newest_here()
        steps_of_ranks = self._gather(steps)
        newest, oldest = max(steps_of_ranks), min(steps_of_ranks)
        if 0 < oldest < newest:
            before, state_before = self._newest_here(oldest)
            if min(self._gather(before)) == oldest:
                self._keep_last(oldest)
                steps, state, newest, steps_of_ranks = oldest, state_before, oldest, [oldest]
        if min(steps_of_ranks) < newest:
            source = steps_of_ranks.index(newest)
            content = self._file(newest).read_bytes() if self._world.rank == source else b""
            size = max(self._gather(len(content)))
            buffer = torch.frombuffer(bytearray(content or size), dtype=torch.uint8)
            buffer = buffer.to(self._world.device)
            self._world.broadcast_(buffer, source)
            if steps != newest:
                state = self._parse(buffer.cpu().numpy().tobytes())
        for name, part in self._parts.items() if newest else ():
            part.load_state_dict(state[name])
        return newest

    def save(self, steps: int) -> int:
        """Save the parts after ``steps`` steps, and remove all but the two newest checkpoints.

        The file is complete or absent, even if the process is killed or the machine fails. If it
        cannot be written, a warning is printed once, and the training continues.

        Returns:
            The size of the file in bytes, once it is on the disk; 0 if it was not written.
        """
        content = BytesIO()
        torch.save({name: part.state_dict() for name, part in self._parts.items()}, content)
        # The same name each time, to overwrite an incomplete file of a killed process.
        draft = self._folder / f"rank-{self._world.rank}.new"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            _write_durably(self._file(steps), draft, content.getbuffer())
            self._keep_last(steps)
        except OSError as error:
            if not self._warned:
                print(f"cannot keep a checkpoint, training on: {error}", file=sys.stderr)
            self._warned = True
            return 0
        return content.tell()

    def _newest_here(self, max_steps: int = sys.maxsize) -> tuple[int, _State]:
        """Return steps and state of this rank's newest intact checkpoint up to ``max_steps``."""
        for steps in reversed([steps for steps in self._steps_here() if steps <= max_steps]):
            path = self._file(steps)
            try:
                return steps, self._parse(path.read_bytes())
            except Exception as error:  # a damaged file can raise anything
                problem = f"{path} holds no checkpoint of this training ({type(error).__name__})"
                print(f"{problem}: looking for the one before", file=sys.stderr)
        return 0, {}

    def _parse(self, content: bytes) -> _State:
        """Return the state in a file's content, on the CPU."""
        # PyTorch writes checksums but does not verify them.
        if damaged := ZipFile(BytesIO(content)).testzip():
            raise BadZipFile(damaged)
        # With weights_only, a file cannot run code.
        state = torch.load(BytesIO(content), map_location="cpu", weights_only=True)
        return {name: state[name] for name in self._parts}

    def _gather(self, number: int) -> list[int]:
        return [int(tensor.item()) for tensor in self._world.gather(torch.tensor(number))]

    def _steps_here(self) -> list[int]:
        files = self._folder.glob("step-" + 8 * "[0-9]" + ".pt")
        return sorted(int(path.stem.removeprefix("step-")) for path in files)

    def _file(self, steps: int) -> Path:
        return self._folder / f"step-{steps:08}.pt"

    def _keep_last(self, steps: int) -> None:
        """Remove all but the last two checkpoints up to ``steps``; newer ones are unreadable."""
        saved_steps = self._steps_here()
        last_two = [saved for saved in saved_steps if saved <= steps][-2:]
        for old in set(saved_steps) - set(last_two):
            self._file(old).unlink(missing_ok=True)


def _write_durably(path: Path, draft: Path, content: memoryview) -> None:
    """Write a file so that it is complete and on the disk once it has its name."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        os.fsync(folder)
    finally:
        os.close(folder)
        draft.unlink(missing_ok=True)
