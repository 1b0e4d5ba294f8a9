"""The training loop: an epoch of synchronous steps, and an exact evaluation, each phase timed."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import nn
from torch.nn import functional

from mlbench import Tracker, names
from mlbench.names import Phase
from worker.data.images import Images
from worker.training.checkpoint import Stateful
from worker.training.deadline import Deadline
from worker.training.device import Execution
from worker.training.distributed import World
from worker.training.exchange import Exchange, ExchangeOptions, average_buffers, make_exchange
from worker.training.schedule import Schedule
from worker.training.scoring import PERCENT

_TOP = 5


class Batches(Protocol):
    """One rank's shares of the batches of an epoch."""

    batch_size: int
    """Images in a step, over all ranks."""

    def __len__(self) -> int:
        """Return the number of steps."""
        ...

    def __iter__(self) -> Iterator[Images]:
        """Yield this rank's share of each batch."""
        ...


@dataclass(frozen=True)
class Score:
    """How well a model does on a set of images."""

    loss: float
    """Mean cross entropy, in nats."""
    accuracy: float
    """Share of images whose likeliest class is the right one, in percent."""
    accuracy5: float
    """Share of images whose right class is among the five likeliest, in percent."""


@dataclass(frozen=True)
class Trainer:
    """What an epoch of training needs."""

    model: nn.Module
    exchange: Exchange
    optimizer: torch.optim.Optimizer
    schedule: Schedule
    execution: Execution
    world: World
    tracker: Tracker
    scaler: torch.amp.GradScaler
    deadline: Deadline

    @classmethod
    def make(
        cls,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        schedule: Schedule,
        *,
        exchange: ExchangeOptions,
        execution: Execution,
        world: World,
        tracker: Tracker,
    ) -> Self:
        """Return the trainer of a model that lies on the device; all ranks get rank 0's weights.

        Raises:
            WorldError: a peer was lost.
        """
        return cls(
            model=model,
            exchange=make_exchange(exchange, model, world, execution.compiled(model)),
            optimizer=optimizer,
            schedule=schedule,
            execution=execution,
            world=world,
            tracker=tracker,
            scaler=execution.make_scaler(),
            deadline=Deadline.from_environ(world, tracker),
        )

    @property
    def parts(self) -> dict[str, Stateful]:
        """What a checkpoint keeps."""
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "scaler": self.scaler,
            "tracker": self.tracker,
        }

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """Time a phase of the step, with all that it gave the device to do."""
        with self.tracker.phase(phase):
            yield
            self.execution.synchronize()


def train_epoch(trainer: Trainer, batches: Batches) -> Score:
    """Train on each batch, and return the score on this rank's images as each step found them.

    The gradient is that of the mean loss over the batch of all ranks. Each rank records the mean
    loss over its own images at each step. Once the deadline has passed, the epoch is over.

    Raises:
        WorldError: a peer was lost.
    """
    t, total = trainer, _Totals()
    t.model.train()
    upcoming = iter(batches)
    for _ in range(len(batches)):
        with t.phase("data"):
            images, labels = _onto_device(next(upcoming), t.execution)
        with t.world.noticing_lost_peers():
            with t.phase("forward"), t.execution.autocast():
                logits = t.exchange.model(images)
                loss = _summed_loss(logits, labels)
            with t.phase("backward"):
                t.exchange.clear()
                # Over all ranks' images: shares differ in size, and the exchange takes the mean.
                share = loss * (t.world.size / batches.batch_size)
                t.scaler.scale(share).backward()  # type: ignore[no-untyped-call]
                waited = t.exchange.waited_seconds()
            t.tracker.phase("backward").give(waited, to=t.tracker.phase("communication"))
            with t.phase("communication"):
                t.exchange.average()
        with t.phase("optimizer"):
            rate = t.schedule.at(t.tracker.steps)
            for group in t.optimizer.param_groups:
                group["lr"] = rate
            t.scaler.step(t.optimizer)
            t.scaler.update()
        with t.phase("metrics"):
            step = _Totals.of(logits, labels, loss)
            total.add(step)
            t.tracker.step(
                samples=len(labels), train_loss=step.loss / len(labels), learning_rate=rate
            )
        if t.deadline.has_passed():
            break
    return total.score()


def evaluate(trainer: Trainer, shard: Iterable[Images]) -> Score:
    """Return the model's score on all ranks' shards together: the same on every rank.

    ``shard`` yields this rank's images, batch by batch. The running statistics of batch norm
    become their mean over all ranks first, so that all evaluate the same model.

    Raises:
        WorldError: a peer was lost.
    """
    t, total = trainer, _Totals()
    with torch.inference_mode():
        with t.phase("evaluation"):
            average_buffers(t.model, t.world)
            t.model.eval()
        upcoming = iter(shard)
        while True:
            # Loading the images is part of it: none of it is training time.
            with t.phase("evaluation"):
                batch = next(upcoming, None)
                if batch is None:
                    break
                images, labels = _onto_device(batch, t.execution)
                with t.execution.autocast():
                    logits = t.model(images)
                    loss = _summed_loss(logits, labels)
                total.add(_Totals.of(logits, labels, loss))
        with t.phase("evaluation"):
            total.sum_over(t.world)
    return total.score()


def record_epoch(trainer: Trainer, epoch: int, trained: Score, validated: Score) -> None:
    """Record and print what an epoch has reached.

    Every rank does so: all have the same validation score, and so agree on when to stop.
    """
    tracker = trainer.tracker
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


def _summed_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.float(), labels, reduction="sum")


def _onto_device(batch: Images, execution: Execution) -> tuple[torch.Tensor, torch.Tensor]:
    return execution.images(batch.images), batch.labels.to(execution.device, non_blocking=True)


@dataclass
class _Totals:
    """Sums over images: not means, as shares and shards differ in size."""

    loss: float = 0.0
    correct: float = 0.0
    correct5: float = 0.0
    images: float = 0.0

    @classmethod
    def of(cls, logits: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor) -> "_Totals":
        """Return those of one batch."""
        likeliest = logits.detach().topk(min(_TOP, logits.shape[1]), dim=1).indices
        hits = (likeliest == labels[:, None]).sum(dim=0).tolist()
        return cls(loss.item(), hits[0], sum(hits), len(labels))

    def add(self, other: "_Totals") -> None:
        self.loss += other.loss
        self.correct += other.correct
        self.correct5 += other.correct5
        self.images += other.images

    def sum_over(self, world: World) -> None:
        """Add all ranks' together. Doubles count exactly."""
        sums = torch.tensor(
            [self.loss, self.correct, self.correct5, self.images],
            dtype=torch.float64,
            device=world.device,
        )
        world.sum_(sums)
        self.loss, self.correct, self.correct5, self.images = sums.tolist()

    def score(self) -> Score:
        return Score(
            self.loss / self.images,
            PERCENT * self.correct / self.images,
            PERCENT * self.correct5 / self.images,
        )
