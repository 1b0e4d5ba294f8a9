"""Checkpoints: the state of a training after a step, from which a restarted run goes on.

Every rank writes into its own worker's folder, so the workers need no storage in common. Tasks
draw their random numbers from their seed and the number of the epoch, so a checkpoint holds none.
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

_KEPT = 2
_FILES = "step-" + 8 * "[0-9]" + ".pt"
_State = dict[str, Any]


class Stateful(Protocol):
    """A model, an optimizer or a tracker, whose state is made of tensors and plain values."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""

    def load_state_dict(self, state: dict[str, Any], /) -> object:
        """Restore a state."""


class Plain:
    """What has nothing but attributes of plain values for its state."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""
        return vars(self).copy()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        vars(self).update(state)


class Checkpoints:
    """A rank's checkpoints of a run: one file for each of the last two steps that were saved.

    Without a folder, none is kept.
    """

    def __init__(self, folder: Path | None, world: World, parts: Mapping[str, Stateful]) -> None:
        self._folder = folder
        self._world = world
        self._parts = parts
        self._warned = False

    def restore(self) -> int:
        """Load the newest checkpoint that all ranks have, or else any, into the parts of all ranks.

        Ranks that are killed within a save have one less than others, and all have the one before;
        within the first save, all begin anew. A rank in another folder than before, that of a new
        worker, takes over the newest of the lowest rank that has it: all of it, also what is a
        rank's own, such as the tracker's samples.

        Returns:
            The steps done, the same on all ranks; 0 if there is no checkpoint.
        """
        if self._was_in_first_save():
            return 0
        steps, state = self._newest_here()
        of_ranks = self._gather(steps)
        newest, oldest = max(of_ranks), min(of_ranks)
        if 0 < oldest < newest:
            before, state_before = self._newest_here(oldest)
            if min(self._gather(before)) == oldest:
                self._keep_last(oldest)
                steps, state, newest, of_ranks = oldest, state_before, oldest, [oldest]
        if min(of_ranks) < newest:
            given = self._broadcast(newest, source=of_ranks.index(newest))
            state = state if steps == newest else self._parse(given)
        for name, part in self._parts.items() if newest else ():
            part.load_state_dict(state[name])
        return newest

    def save(self, steps: int) -> int:
        """Save the parts after that many steps; of older checkpoints the last one stays.

        The file is complete or absent, whatever ends the process or the machine meanwhile. If it
        cannot be written, stderr says so once, and the training goes on: the result matters more.

        Returns:
            The bytes of the file, which is on the disk; 0 if there is none.
        """
        if self._folder is None:
            return 0
        content = BytesIO()
        torch.save({name: part.state_dict() for name, part in self._parts.items()}, content)
        # The same name each time, to overwrite what a killed process left half done.
        draft = self._folder / f"rank-{self._world.rank}.new"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            _write(self._file(steps), draft, content.getbuffer())
            self._keep_last(steps)
        except OSError as error:
            if not self._warned:
                print(f"cannot keep a checkpoint, training on: {error}", file=sys.stderr)
            self._warned = True
            return 0
        return content.tell()

    def _was_in_first_save(self) -> bool:
        """Tell whether ranks that were here before have saved nothing, and others once."""
        was_here, saved = False, len(self._steps_here())
        if self._folder is not None:
            was_here = self._folder.is_dir()
            with suppress(OSError):  # which ``save`` tells
                self._folder.mkdir(parents=True, exist_ok=True)
        return any(self._gather(was_here and not saved)) and max(self._gather(saved)) == 1

    def _newest_here(self, most: int = sys.maxsize) -> tuple[int, _State]:
        """Return steps and state of the newest complete checkpoint here, after ``most`` steps."""
        for steps in reversed([steps for steps in self._steps_here() if steps <= most]):
            path = self._file(steps)
            try:
                return steps, self._parse(path.read_bytes())
            except Exception as error:  # a damaged file can raise anything
                what = f"{path} holds no checkpoint of this training ({type(error).__name__})"
                print(f"{what}: looking for the one before", file=sys.stderr)
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
        return [int(of_rank.item()) for of_rank in self._world.gather(torch.tensor(number))]

    def _broadcast(self, steps: int, source: int) -> bytes:
        """Return the checkpoint's file on the rank ``source``."""
        content = self._file(steps).read_bytes() if self._world.rank == source else b""
        size = max(self._gather(len(content)))
        buffer = torch.frombuffer(bytearray(content or size), dtype=torch.uint8)
        buffer = buffer.to(self._world.device)
        self._world.broadcast_(buffer, source)
        return buffer.cpu().numpy().tobytes()

    def _steps_here(self) -> list[int]:
        if self._folder is None:
            return []
        return sorted(int(path.stem.removeprefix("step-")) for path in self._folder.glob(_FILES))

    def _file(self, steps: int) -> Path:
        assert self._folder is not None
        return self._folder / f"step-{steps:08}.pt"

    def _keep_last(self, steps: int) -> None:
        """Remove all but the last two up to these steps; a newer one could not be read."""
        here = self._steps_here()
        kept = [saved for saved in here if saved <= steps][-_KEPT:]
        for old in set(here) - set(kept):
            self._file(old).unlink(missing_ok=True)


def _write(path: Path, draft: Path, content: memoryview) -> None:
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
