"""Checkpoints are whole or absent, and all ranks restore the same one."""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from mlbench import Tracker
from mlbench_worker.ranks.distributed import World
from mlbench_worker.training.checkpoint import Checkpoints, Stateful
from tests.conftest import wait_for
from tests.support.ranks import start_ranks

# Saves one epoch after another, and prints each saved epoch.
_SAVE = """
import itertools, pathlib, sys, torch
from torch import nn
from mlbench_worker.training.checkpoint import Checkpoints
from mlbench_worker.ranks.distributed import World
model = nn.Linear(500, 500)
checkpoints = Checkpoints(pathlib.Path(sys.argv[1]), World(), {"model": model})
for epoch in itertools.count(checkpoints.restore() + 1):
    nn.init.constant_(model.weight, epoch)
    checkpoints.save(epoch)
    print(epoch, flush=True)
"""

# Each rank first saves the epochs in its argument, such as "1,2", with a weight that encodes epoch
# and rank. "begun" restores without saving, and "torn" damages rank 0's newest file. The rank then
# prints the restored epoch and weight.
_RESTORE = """
import pathlib, sys, torch
from torch import nn
from mlbench_worker.training.checkpoint import Checkpoints
from mlbench_worker.ranks.distributed import World, join_world
folder, *of_ranks = sys.argv[1:]
with join_world() as world:
    own = pathlib.Path(folder) / str(world.rank)
    def checkpoints(value, world):
        model = nn.Linear(1, 1, bias=False)
        nn.init.constant_(model.weight, value)
        return model, Checkpoints(own, world, {"model": model})
    if of_ranks[world.rank] == "begun":
        checkpoints(0, World())[1].restore()
    for epochs in filter(str.isdecimal, of_ranks[world.rank].split(",")):
        checkpoints(10 * int(epochs) + world.rank, World())[1].save(int(epochs))
    if world.rank == 0 and "torn" in sys.argv:
        newest = max(own.glob("*.pt"))
        newest.write_bytes(newest.read_bytes()[:-100])
    model, found = checkpoints(-1, world)
    print(found.restore(), model.weight.item())
"""


def make(folder: Path, fill: float = 0.0) -> tuple[nn.Linear, Checkpoints]:
    model = nn.Linear(3, 2)
    nn.init.constant_(model.weight, fill)
    return model, Checkpoints(folder, World(), {"model": model})


def save(folder: Path, *epochs: int) -> None:
    """Save one model per epoch, whose weights are the number of the epoch."""
    for number in epochs:
        make(folder, fill=number)[1].save(number)


def restored(folder: Path) -> tuple[int, float]:
    """Return the restored epoch and the model's weight."""
    model, checkpoints = make(folder, fill=-1.0)
    return checkpoints.restore(), model.weight[0, 0].item()


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_last_two_are_kept_and_the_newest_is_restored(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "by-save"
    save(folder, 1, 2, 5, 7)
    assert files(folder) == ["step-00000005.pt", "step-00000007.pt"]
    assert restored(folder) == (7, 7.0)


def test_all_parts_are_restored(tmp_path: Path) -> None:
    class Training:
        def __init__(self) -> None:
            self.model, self.tracker = nn.Linear(4, 1), Tracker({})
            self.sgd = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
            parts: dict[str, Stateful] = {"model": self.model, "tracker": self.tracker}
            parts["optimizer"] = self.sgd
            self.checkpoints = Checkpoints(tmp_path, World(), parts)

        def train(self) -> list[float]:
            losses = []
            for _ in range(5):
                loss = (self.model(torch.ones(8, 4)) - 3).square().mean()
                self.sgd.zero_grad(set_to_none=False)
                loss.backward()
                self.sgd.step()
                self.tracker.step(samples=8)
                losses.append(loss.item())
            return losses

    first, again = Training(), Training()
    first.train()
    first.checkpoints.save(1)
    weight = again.model.weight
    assert again.checkpoints.restore() == 1
    assert again.model.weight is weight, "gradients and buckets point to the old weight"
    assert again.tracker.steps == 5
    assert again.train() == first.train()
    assert again.tracker.samples == 80


_SEVENS = torch.full((6,), 7.0).numpy().tobytes()


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda whole: whole[:-50],
        lambda _: b"no checkpoint",
        lambda whole: whole.replace(_SEVENS, b"\1" + _SEVENS[1:]),
    ],
    ids=["empty", "cut", "text", "a flipped bit"],
)
def test_a_damaged_checkpoint_falls_back_to_the_previous_one(
    tmp_path: Path, damage: Callable[[bytes], bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, 6, 7)
    newest = tmp_path / "step-00000007.pt"
    newest.write_bytes(damage(newest.read_bytes()))
    assert restored(tmp_path) == (6, 6.0)
    assert f"{newest} holds no checkpoint of this training" in capsys.readouterr().err


def test_unreadable_checkpoints_do_not_count_toward_the_two_to_keep(tmp_path: Path) -> None:
    save(tmp_path, 6, 7)
    (tmp_path / "step-00000009.pt").write_bytes(b"torn")
    _, checkpoints = make(tmp_path)
    assert checkpoints.restore() == 7
    checkpoints.save(8)
    assert files(tmp_path) == ["step-00000007.pt", "step-00000008.pt"]


def test_a_file_cannot_run_code(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "run"),)

    save(tmp_path, 6)
    torch.save({"model": Trap()}, tmp_path / "step-00000007.pt")
    assert restored(tmp_path)[0] == 6
    assert not (tmp_path / "run").exists()


def test_a_failed_save_does_not_end_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, 1, 2)
    _, checkpoints = make(tmp_path)
    (tmp_path / "rank-0.new").symlink_to("/dev/full")
    checkpoints.save(3)
    (tmp_path / "rank-0.new").symlink_to("/dev/full")
    checkpoints.save(4)
    assert capsys.readouterr().err.splitlines() == [
        "cannot keep a checkpoint, training on: [Errno 28] No space left on device"
    ]
    assert restored(tmp_path) == (2, 2.0)
    assert files(tmp_path) == ["step-00000001.pt", "step-00000002.pt"]
    checkpoints.save(5)
    assert restored(tmp_path)[0] == 5


def has_a_line(path: Path) -> bool:
    return path.exists() and "\n" in path.read_text()


def test_a_killed_process_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    for kills in range(3):
        [saving] = start_ranks(tmp_path, 1, "-c", _SAVE, str(tmp_path))
        stdout = saving.folder / "stdout"
        wait_for(partial(has_a_line, stdout), what="a save")
        # The kill hits one of the next saves, each of which takes a few milliseconds.
        time.sleep(0.0137 * kills)
        saving.kill()
        *_, last, _ = stdout.read_text().split("\n")
        model = nn.Linear(500, 500)
        done = Checkpoints(tmp_path, World(), {"model": model}).restore()
        assert done >= int(last), "a saved checkpoint is missing"
        assert torch.equal(model.weight, torch.full((500, 500), float(done)))


@pytest.mark.parametrize(
    ("of_ranks", "epochs", "weights"),
    [
        (["", "3"], 3, [31.0, 31.0]),
        (["begun", "3"], 0, [-1.0, -1.0]),
        (["begun", "2,3"], 3, [31.0, 31.0]),
        (["1", "3", "3"], 3, [31.0, 31.0, 32.0]),
        (["1", "1,2", "1,2"], 1, [10.0, 11.0, 12.0]),
        (["1,2", "1,2", "torn"], 1, [10.0, 11.0]),
    ],
)
def test_the_newest_common_checkpoint_is_restored_or_else_any(
    tmp_path: Path, of_ranks: list[str], epochs: int, weights: list[float]
) -> None:
    ranks = start_ranks(tmp_path, len(weights), "-c", _RESTORE, str(tmp_path), *of_ranks)
    outputs = [rank.output() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * len(ranks), outputs
    assert [said for said, _ in outputs] == [f"{epochs} {weight}\n" for weight in weights]
