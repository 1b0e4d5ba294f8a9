"""The loop over the steps, which trains and evaluates a model, whatever it is made for."""

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
class Score(Sums):
    """How well samples are predicted."""

    loss_sum: float = 0.0
    samples: float = 0.0

    @property
    def loss(self) -> float:
        """Mean cross entropy, in nats."""
        return self.loss_sum / self.samples

    trained: ClassVar[Mapping[str, str]] = {}
    """What an epoch records of the training's, besides the loss: its attributes, by the metric."""
    validated: ClassVar[Mapping[str, str]] = {}
    """The same of the validation's."""


B = TypeVar("B")
S = TypeVar("S", bound=Score)


@dataclass(frozen=True)
class Outcome(Generic[S]):
    """What a model makes of a batch."""

    loss: torch.Tensor
    """Summed over the batch's images, or its rows of text: of a row, the mean of its tokens."""
    score: Callable[[], S]


class Trainer(ABC, Generic[B, S]):
    """Trains and evaluates a model that lies on the session's device."""

    nothing: S
    """The score of no samples."""

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

        A gradient whose norm is more than ``longest_gradient`` is cut down to that (Pascanu et al.:
        On the difficulty of training recurrent neural networks, 2013); 0: it never is.
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
    def compute(self, model: nn.Module, batch: B) -> Outcome[S]:
        """Return what the model makes of a batch on the device."""

    def rate(self, batch: B) -> float:
        """Return the learning rate of the step on a batch."""
        return self.schedule(self.session.tracker.steps)

    @property
    def parts(self) -> dict[str, Stateful]:
        """The state that a checkpoint holds; the exchange comes after what it may act on."""
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "scaler": self.scaler,
            "exchange": self.exchange,
            **state_of(self.schedule),
        }

    def train(self, batches: Iterable[B], batch_size: int) -> S:
        """Train on each batch; return the score of this rank's samples as each step found them.

        The gradients' mean over the ranks is that of the mean loss over the ``batch_size`` images,
        or rows, of all ranks in a step. Each rank records the mean loss over its own samples at
        each step, and the bytes that it sent. After the deadline, the epoch is over.

        ``batches`` are those that the session's progress has left; the score is that of all.
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

    def step(self, batch: B, batch_size: int) -> tuple[Outcome[S], float]:
        """Take a step on a batch; return what the model made of it before, and the learning rate.

        All that it takes, but loading, is timed by phases.
        """
        session, world, tracker = self.session, self.session.world, self.session.tracker
        with world.noticing_lost_peers():
            with session.phase("forward"), session.execution.autocast():
                outcome = self.compute(self.exchange.model, batch)
            with session.phase("backward"):
                self.exchange.clear()
                # Over all ranks' rows: shares differ in size, and the exchange takes means.
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
        """Return the score on all ranks' shards together: the same on every rank.

        ``shard`` yields this rank's part, batch by batch. All ranks evaluate the same model.
        """
        session, total = self.session, self.nothing
        with session.phase("evaluation"):
            model = self.exchange.averaged(self.model).eval()
        # Loading is part of it: none of it is training time.
        for batch in self._load(shard, "evaluation"):
            with session.phase("evaluation"):
                with session.execution.autocast():
                    outcome = self.compute(model, batch)
                total += outcome.score()
        with session.phase("evaluation"):
            return total.over(session.world)

    def record(self, epoch: int, trained: S, validated: S) -> None:
        """Record and print what an epoch has reached.

        Every rank does so: all have the same validation score, and so agree on when to stop.
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
        """Yield batches on the device. Loading them is timed as the phase."""
        upcoming = iter(batches)
        while True:
            with self.session.phase(phase):
                batch = next(upcoming, None)
                if batch is None:
                    return
                placed = self.place(batch)
            yield placed


def decay_weights_only(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Return the optimizer's parameter groups: weights decay, biases and those of norms do not."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]


def state_of(schedule: Schedule) -> dict[str, Stateful]:
    """Return what a checkpoint holds of a schedule: nothing, where it has no state."""
    return {"schedule": schedule} if isinstance(schedule, PlateauSchedule) else {}
