"""What training tasks share: the session of a rank, its deadline, and the loop over the steps."""

import bisect
import operator
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import torch
from torch import nn
from torch.nn import functional

from mlbench import Tracker, names
from mlbench.home import Home
from mlbench.names import Phase
from worker.data.images import Images
from worker.training.checkpoint import Checkpoints, Stateful
from worker.training.distributed import (
    BackendOptions,
    DeviceOptions,
    Execution,
    World,
    join_world,
    set_up,
)
from worker.training.exchange import ExchangeOptions, average_buffers, make_exchange
from worker.training.options import Options, TrainingOptions

Schedule = Callable[[int], float]
"""The learning rate of a step; the first step is 0."""

_TOP = 5


@dataclass
class Session:
    """What the task of one rank works with. ``start`` makes it."""

    world: World
    tracker: Tracker
    execution: Execution
    deadline_at: float | None = None
    """When training ends, in Unix seconds by this machine's clock. All ranks have one, or none."""
    _deadline_passed: bool = False

    @property
    def datasets(self) -> Path:
        """The folder of all data sets: $MLBENCH_DATASETS, or ``datasets`` in $MLBENCH_HOME."""
        given = os.environ.get(names.ENV_DATASETS)
        return Path(given).absolute() if given else Home.from_environ().datasets

    def state_settings(self, config: Options, **facts: str | float | bool | None) -> None:
        """Record the options, the device, and further facts of the run: once for all ranks."""
        if self.world.rank == 0:
            self.tracker.settings(asdict(config) | self.execution.describe() | facts)

    def say(self, text: str) -> None:
        """Print which rank this is, a text, and the number of threads."""
        print(f"{self.world}: {text}, threads: {torch.get_num_threads()}", flush=True)

    def epochs(self, config: TrainingOptions, parts: Mapping[str, Stateful]) -> Iterator[int]:
        """Yield the epochs to train, until the goal is reached, the deadline passes, or the last.

        The first is the one after the newest checkpoint. A checkpoint of ``parts`` and the tracker
        is saved after each epoch that another may follow.
        """
        folder = os.environ.get(names.ENV_CHECKPOINTS)
        parts = {**parts, "tracker": self.tracker}
        checkpoints = Checkpoints(Path(folder) if folder else None, self.world, parts)
        for epoch in range(checkpoints.restore(), config.epochs):
            self.tracker.epoch(epoch)
            yield epoch
            if self.tracker.goal_reached:
                print(f"goal of {config.goal} % reached", flush=True)
                return
            if self.deadline_has_passed():
                return
            checkpoints.save(epoch + 1)

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """Time a phase of the step, with all that it gave the device to do."""
        with self.tracker.phase(phase):
            yield
            self.execution.synchronize()

    def deadline_has_passed(self) -> bool:
        """Tell whether the deadline has passed on any rank: the same on every rank.

        All ranks call it after the same step. They communicate for it, if there is a deadline.
        """
        if self.deadline_at is None or self._deadline_passed:
            return self._deadline_passed
        with self.tracker.phase("communication"):
            ranks = torch.tensor(int(time.time() >= self.deadline_at), device=self.world.device)
            self.world.sum_(ranks)
            self._deadline_passed = bool(ranks.item())
        if self._deadline_passed:
            print("the deadline has passed: training ends", flush=True)
        return self._deadline_passed


@contextmanager
def start(config: BackendOptions) -> Iterator[Session]:
    """Join the other ranks and set up the device; without options of one, that of the backend."""
    with Tracker() as tracker, join_world(config.backend) as world:
        on_backend = DeviceOptions("cpu" if world.device.type == "cpu" else "cuda")
        device = config if isinstance(config, DeviceOptions) else on_backend
        deadline = os.environ.get(names.ENV_DEADLINE)
        yield Session(world, tracker, set_up(device, world), float(deadline) if deadline else None)


@dataclass(frozen=True)
class Sums:
    """Sums over samples, not means: the shares of the ranks differ in size."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*map(operator.add, vars(self).values(), vars(other).values()))

    def over(self, world: World) -> Self:
        """Return the sums over all ranks, the same on each. Doubles count exactly."""
        sums = torch.tensor(list(vars(self).values()), dtype=torch.float64, device=world.device)
        world.sum_(sums)
        return type(self)(*sums.tolist())


@dataclass(frozen=True)
class Score(Sums):
    """How well a model classifies images."""

    loss_sum: float = 0.0
    correct: float = 0.0
    correct5: float = 0.0
    images: float = 0.0

    @classmethod
    def of(cls, logits: torch.Tensor, labels: torch.Tensor, loss_sum: torch.Tensor) -> Self:
        """Return the score of one batch."""
        likeliest = logits.detach().topk(min(_TOP, logits.shape[1]), dim=1).indices
        hits = (likeliest == labels[:, None]).sum(dim=0).tolist()
        return cls(loss_sum.item(), hits[0], sum(hits), len(labels))

    @property
    def loss(self) -> float:
        """Mean cross entropy, in nats."""
        return self.loss_sum / self.images

    @property
    def accuracy(self) -> float:
        """Share of images whose likeliest class is the right one, in percent."""
        return 100 * self.correct / self.images

    @property
    def accuracy5(self) -> float:
        """Share of images whose right class is among the five likeliest, in percent."""
        return 100 * self.correct5 / self.images


class Trainer:
    """Trains and evaluates an image classifier that lies on the session's device."""

    def __init__(
        self,
        session: Session,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        schedule: Schedule,
        exchange: ExchangeOptions,
    ) -> None:
        """Give all ranks the weights of rank 0."""
        self.session = session
        self.model = model
        self.optimizer = optimizer
        self.schedule = schedule
        self.exchange = make_exchange(exchange, session.execution.compiled(model), session.world)
        self.scaler = session.execution.make_scaler()

    @property
    def parts(self) -> dict[str, Stateful]:
        """The state that a checkpoint holds."""
        return {"model": self.model, "optimizer": self.optimizer, "scaler": self.scaler}

    def train(self, batches: Iterable[Images], batch_size: int) -> Score:
        """Train on each batch; return the score of this rank's images as each step found them.

        The gradient is that of the mean loss over the ``batch_size`` images of all ranks in a step.
        Each rank records the mean loss over its own images at each step. After the deadline, the
        epoch is over.
        """
        session, world, tracker = self.session, self.session.world, self.session.tracker
        total = Score()
        self.model.train()
        for images, labels in self._load(batches, "data"):
            with world.noticing_lost_peers():
                with session.phase("forward"), session.execution.autocast():
                    logits = self.exchange.model(images)
                    loss = _summed_loss(logits, labels)
                with session.phase("backward"):
                    self.exchange.clear()
                    # Over all ranks' images: shares differ in size, and the exchange takes means.
                    share = loss * (world.size / batch_size)
                    self.scaler.scale(share).backward()  # type: ignore[no-untyped-call]
                    waited = self.exchange.waited_seconds()
                tracker.phase("backward").give(waited, to=tracker.phase("communication"))
                with session.phase("communication"):
                    self.exchange.average()
            with session.phase("optimizer"):
                rate = self.schedule(tracker.steps)
                for group in self.optimizer.param_groups:
                    group["lr"] = rate
                self.scaler.step(self.optimizer)
                self.scaler.update()
            with session.phase("metrics"):
                step = Score.of(logits, labels, loss)
                total += step
                tracker.step(samples=len(labels), train_loss=step.loss, learning_rate=rate)
            if session.deadline_has_passed():
                break
        return total

    @torch.inference_mode()
    def evaluate(self, shard: Iterable[Images]) -> Score:
        """Return the score on all ranks' shards together: the same on every rank.

        ``shard`` yields this rank's images, batch by batch. The running statistics of batch norm
        become their mean over all ranks first, so that all evaluate the same model.
        """
        session, total = self.session, Score()
        with session.phase("evaluation"):
            average_buffers(self.model, session.world)
            self.model.eval()
        # Loading the images is part of it: none of it is training time.
        for images, labels in self._load(shard, "evaluation"):
            with session.phase("evaluation"):
                with session.execution.autocast():
                    logits = self.model(images)
                    loss = _summed_loss(logits, labels)
                total += Score.of(logits, labels, loss)
        with session.phase("evaluation"):
            return total.over(session.world)

    def record(self, epoch: int, trained: Score, validated: Score) -> None:
        """Record and print what an epoch has reached.

        Every rank does so: all have the same validation score, and so agree on when to stop.
        """
        tracker = self.session.tracker
        tracker.log(
            {
                names.TRAIN_ACCURACY: trained.accuracy,
                names.VAL_LOSS: validated.loss,
                names.VAL_ACCURACY: validated.accuracy,
                names.VAL_ACCURACY5: validated.accuracy5,
            },
            step=tracker.steps,
        )
        print(
            f"epoch {epoch}, step {tracker.steps}: training loss {trained.loss:.3f}, "
            f"validation accuracy {validated.accuracy:.2f} %, {tracker.train_seconds:.1f} s",
            flush=True,
        )

    def _load(
        self, batches: Iterable[Images], phase: Phase
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield images and labels on the device. Loading them is timed as the phase."""
        execution, upcoming = self.session.execution, iter(batches)
        while True:
            with self.session.phase(phase):
                batch = next(upcoming, None)
                if batch is None:
                    return
                images = execution.images(batch.images)
                labels = batch.labels.to(execution.device, non_blocking=True)
            yield images, labels


def _summed_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.float(), labels, reduction="sum")


def scale_linearly(
    learning_rate: float,
    *,
    batch_size: int,
    reference_batch: int,
    epoch_steps: int,
    warmup_epochs: int,
    decay_epochs: Sequence[int],
) -> Schedule:
    """Return the schedule of Goyal et al. 2017: a rate in proportion to the batch of all ranks.

    ``learning_rate`` is that of ``reference_batch`` samples. A larger one rises linearly from there
    in ``warmup_epochs``. After each of ``decay_epochs`` the rate falls to a tenth.
    """
    peak = learning_rate * batch_size / reference_batch
    begin = min(learning_rate, peak)
    warmup_steps = warmup_epochs * epoch_steps
    milestones = [epoch * epoch_steps for epoch in decay_epochs]

    def rate(step: int) -> float:
        if step < warmup_steps:
            return begin + (peak - begin) * step / warmup_steps
        return peak * 0.1 ** bisect.bisect_right(milestones, step)

    return rate
