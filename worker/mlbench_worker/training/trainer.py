"""The training loop: trains and evaluates any kind of model, step by step."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from mlbench.benchmarks.task_options import ExchangeOptions
from mlbench.contract import names
from mlbench.contract.names import Phase
from mlbench_worker.training.checkpoint import Stateful
from mlbench_worker.training.exchange import make_exchange
from mlbench_worker.training.schedules import PlateauSchedule, Schedule
from mlbench_worker.training.session import Session, Sums


@dataclass(frozen=True)
class EvaluationScore(Sums):
    """How well samples are predicted."""

    loss_sum: float = 0.0
    samples: float = 0.0

    @property
    def loss(self) -> float:
        """Mean cross entropy, in nats."""
        return self.loss_sum / self.samples

    trained: ClassVar[Mapping[str, str]] = {}
    """Training metrics recorded after each epoch, with the attribute for each."""
    validated: ClassVar[Mapping[str, str]] = {}
    """The same for validation, whose loss is always recorded."""


B = TypeVar("B")
S = TypeVar("S", bound=EvaluationScore)


@dataclass(frozen=True)
class TrainingOutcome(Generic[S]):
    """The loss and score of a model on a batch."""

    loss: torch.Tensor
    """Sum over the images, or over the rows of text (for a row, the mean of its tokens)."""
    score: Callable[[], S]
    """Computes the score, when it is needed: that waits for the device."""


class Trainer(ABC, Generic[B, S]):
    """Trains and evaluates a model on the session's device."""

    nothing: S
    """The score of zero samples."""

    def __init__(
        self,
        session: Session,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        schedule: Schedule,
        exchange: ExchangeOptions,
        longest_gradient: float = 0.0,
    ) -> None:
        """Give all ranks the weights of rank 0.

        ``longest_gradient``: maximum norm of a gradient, to which longer ones are clipped (Pascanu
        et al.: On the difficulty of training recurrent neural networks, 2013); 0 for no limit.
        """
        self.session = session
        self.model = model
        self.optimizer = optimizer
        self.schedule = schedule
        self.exchange = make_exchange(exchange, session.execution.compiled(model), session.world)
        self.scaler = session.execution.make_scaler()
        self._longest_gradient = longest_gradient

    @abstractmethod
    def place(self, batch: B) -> B:
        """Return a batch on the device."""

    @abstractmethod
    def compute(self, model: nn.Module, batch: B) -> TrainingOutcome[S]:
        """Return the loss and score of a batch on the device."""

    def rate(self, batch: B) -> float:
        """Return the learning rate of the step on a batch."""
        return self.schedule(self.session.tracker.steps)

    @property
    def parts(self) -> dict[str, Stateful]:
        """The state for a checkpoint. The exchange comes after the parts that it may act on."""
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "scaler": self.scaler,
            "exchange": self.exchange,
            **state_of(self.schedule),
        }

    def train(self, batches: Iterable[B], batch_size: int) -> S:
        """Train on the remaining batches of an epoch; return this rank's score over all of them.

        Samples are scored before the step on them. ``batch_size`` counts the images, or rows, of
        all ranks in a step; the gradient is that of their mean loss. At each step, each rank
        records the mean loss of its own samples and the bytes that it sent. The epoch ends early
        at the deadline.
        """
        session, tracker, progress = self.session, self.session.tracker, self.session.progress
        total = replace(self.nothing, **progress.kept)
        self.model.train()
        self.exchange.begin_epoch(progress.epoch)
        for batch in self._load(batches, "data"):
            session.save_if_due()
            outcome, rate = self.step(batch, batch_size)
            with session.phase("metrics"):
                score = outcome.score()
                total += score
                tracker.step(
                    samples=round(score.samples),
                    train_loss=score.loss,
                    learning_rate=rate,
                    bytes_sent=self.exchange.bytes_of_step(),
                )
                progress.done(vars(total))
            if session.deadline_has_passed():
                break
        return total

    def step(self, batch: B, batch_size: int) -> tuple[TrainingOutcome[S], float]:
        """Take a step on a batch; return its outcome before the step, and the learning rate.

        The time of the whole step, except loading, is recorded by phases.
        """
        session, world, tracker = self.session, self.session.world, self.session.tracker
        with world.noticing_lost_peers():
            with session.phase("forward"), session.execution.autocast():
                outcome = self.compute(self.exchange.model, batch)
            with session.phase("backward"):
                self.exchange.clear()
                # The exchange takes the mean over ranks, whose shares of the batch differ in size.
                share = outcome.loss * (world.size / batch_size)
                self.scaler.scale(share).backward()  # type: ignore[no-untyped-call]
                waited = self.exchange.waited_seconds()
            tracker.move_time(waited, "backward", "communication")
            with session.phase("communication"):
                self.exchange.after_backward()
        with session.phase("optimizer"):
            rate = self.rate(batch)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            if self._longest_gradient:
                self.scaler.unscale_(self.optimizer)
                clip_grad_norm_(self.model.parameters(), self._longest_gradient)
            self.scaler.step(self.optimizer)
            self.scaler.update()
        with session.phase("communication"):
            self.exchange.after_step()
        return outcome, rate

    @torch.inference_mode()
    def evaluate(self, shard: Iterable[B]) -> S:
        """Return the score over the shards of all ranks: the same on every rank.

        ``shard`` yields this rank's batches. All ranks evaluate the same model.
        """
        session, total = self.session, self.nothing
        with session.phase("evaluation"):
            model = self.exchange.averaged(self.model).eval()
        # Loading counts as evaluation here, because it is not training time.
        for batch in self._load(shard, "evaluation"):
            with session.phase("evaluation"):
                with session.execution.autocast():
                    outcome = self.compute(model, batch)
                total += outcome.score()
        with session.phase("evaluation"):
            return total.over(session.world)

    def record(self, epoch: int, trained: S, validated: S) -> None:
        """Record and print the scores of an epoch.

        Every rank records the same validation score, so that all agree on when to stop.
        """
        tracker = self.session.tracker
        tracker.log(
            {
                **{name: getattr(trained, key) for name, key in trained.trained.items()},
                names.VAL_LOSS: validated.loss,
                **{name: getattr(validated, key) for name, key in validated.validated.items()},
                names.BYTES_PER_STEP: self.exchange.bytes_sent / tracker.steps,
            },
            step=tracker.steps,
        )
        print(
            f"epoch {epoch}, step {tracker.steps}: training loss {trained.loss:.3f}, "
            f"validation {validated}, {tracker.train_seconds:.1f} s",
            flush=True,
        )

    def _load(self, batches: Iterable[B], phase: Phase) -> Iterator[B]:
        """Yield batches on the device; record the time to load them as ``phase``."""
        upcoming = iter(batches)
        while True:
            with self.session.phase(phase):
                batch = next(upcoming, None)
                if batch is None:
                    return
                placed = self.place(batch)
            yield placed


def decay_weights_only(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Return parameter groups for an optimizer: weight decay for matrices, not for vectors."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]


def state_of(schedule: Schedule) -> dict[str, Stateful]:
    """Return the part of a checkpoint for a schedule: empty if the schedule is stateless."""
    return {"schedule": schedule} if isinstance(schedule, PlateauSchedule) else {}
