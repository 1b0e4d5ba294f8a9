"""Linear learning: logistic regression, ridge regression or a linear SVM, by synchronous SGD.

Data: rows in LIBSVM's format, dense (epsilon: 400,000 rows of 2,000 features) or sparse (rcv1:
20,242 of 47,236). The file is parsed once into float32 arrays, which are then mapped into memory.
Validation is on the data set's own file, NAME.t, or on a fifth of the rows.
Model: one weight for each feature, no intercept. Logistic loss, squared loss (ridge) or squared
hinge (svm), plus the penalty ``l2/2 |w|²``; gradients in closed form, as ``Loss`` has them.
Algorithm: synchronous mini-batch SGD. Rows are stored in a fixed pseudo-random order. A step takes
a block of 100 consecutive rows, which the workers share, and sums their gradients by all-reduce:
any number of workers trains the same model, up to rounding. Only seed and epoch determine the order
of the blocks. The weights start at zero.
Step size: ``4 / L / sqrt(1 + e)`` after e epochs (the rate 1/sqrt(t) of Zinkevich 2003), with
``L = smoothness * max |x|² + l2``; the smoothness is 0.25 for logistic, 1 for squared loss, 2 for
squared hinge. On rows of length 1, logistic regression starts at 16. A step of 2 / L is safe on any
data. Larger steps are safe if rows point in many directions, because the mean loss is smoother.
Goal: ``val_global_Prec@1`` of 89 %, evaluated after each epoch. Ridge regression has no goal; it
records R2.

On a9a (32,561 rows of 123 features, l2 of 1 / rows), 20 epochs bring the objective, loss plus
penalty, close to scikit-learn's optimum. The distance is at most 5e-4 for logistic regression
(0.323379582), 2e-4 for ridge regression (0.224240528) and 8e-4 for the SVM (0.422050837).

With ``batch_size`` the number of rows, ``decay=0``, ``learning_rate=1`` and ``momentum=0.995``, the
algorithm is accelerated gradient descent (Nesterov 1983). Then 4,000 epochs of one step each end
within 4e-12, 9e-12 and 3e-8 of the optimum, in 21 s to 48 s on one core of a busy machine
(``benchmarks.linear_optimum a9a learning_rate=1``). If a few rows are much longer than the rest,
larger rates, which that module finds, take less time.

Neither epsilon nor rcv1 has been tried: their files were not at hand. Generated rows like epsilon's
replace them: 80,000 rows of 2,000 normal features of falling scale, scaled to length 1, with labels
drawn so that the best possible accuracy is 92.3 %. One trial each (seed 0): logistic regression
reaches 89 % in 3 epochs of 800 steps and 90.3 % in 8, the SVM 89 % in 2 and 90.9 % in 8.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
from torch import nn
from torch.nn import functional

from mlbench.benchmarks.tasks import LinearModel, LinearOptions
from mlbench.contract import names
from mlbench_worker.data.libsvm.dataset import Dataset, load_dataset
from mlbench_worker.data.libsvm.row_blocks import SparseSamples
from mlbench_worker.ranks.rank_process import DataError, run
from mlbench_worker.training.checkpoint import Stateful
from mlbench_worker.training.frameworks import load, versions
from mlbench_worker.training.session import Session, Sums, start


def main(config: LinearOptions) -> None:
    """Train until the goal is reached or all epochs are done."""
    classes = config.model != "ridge"
    with start(config) as session:
        tracker, device = session.tracker, session.execution.device
        if classes:
            session.set_goal(config)

        data = session.world.prepare(
            lambda: load_dataset(config.dataset, session.datasets, classes=classes)
        ).to(device)
        session.state_settings(
            config,
            **versions(config),
            goal=config.goal if classes else None,
            data=config.dataset,
            data_sha256=data.sha256,
            train_samples=len(data.train),
            validation_samples=len(data.validation),
        )
        validation = data.validation[session.world.shard(len(data.validation))]
        weights = torch.zeros(data.features, device=device)
        training = Training(config, data, weights, session)
        session.say(
            f"{len(data.train)} rows to train, {len(data.validation)} to validate, "
            f"{data.features} features"
        )

        for epoch in session.epochs(config, training.parts):
            trained = training.epoch(epoch)
            validated = evaluate(config.model, weights, validation, session)
            quality = (
                {names.TRAIN_ACCURACY: trained.accuracy, names.VAL_ACCURACY: validated.accuracy}
                if classes
                else {names.TRAIN_R2: trained.r2, names.VAL_R2: validated.r2}
            )
            # Every rank records the same values, so that all agree on when to stop.
            tracker.log({names.VAL_LOSS: validated.loss, **quality}, step=tracker.steps)
            figures = ", ".join(f"{name} {value:.4f}" for name, value in quality.items())
            print(
                f"epoch {epoch}, step {tracker.steps}: training loss {trained.loss:.4f}, "
                f"validation loss {validated.loss:.4f}, {figures}, {tracker.train_seconds:.2f} s",
                flush=True,
            )


class Training:
    """Trains the weights, epoch by epoch, on this rank's share of each batch."""

    def __init__(
        self, config: LinearOptions, data: Dataset, weights: torch.Tensor, session: Session
    ) -> None:
        rows, workers = len(data.train), session.world.size
        if not workers <= config.batch_size <= rows:
            raise DataError(
                f"--batch-size must be at least {workers}, the number of workers, and at most "
                f"{rows}, the number of rows to train on (not {config.batch_size})"
            )
        self._config = config
        self._samples = data.train
        self._weights = weights
        self._velocity = torch.zeros_like(weights)
        self._session = session
        self._loss = LOSSES[config.model]
        self._steps = rows // config.batch_size
        smoothness = self._loss.smoothness * data.largest_norm2 + config.l2
        self._first_rate = config.learning_rate / smoothness
        self._compiled = None
        if config.framework != "torch":
            self._compiled = load(config.framework).linear_steps(session, config, weights)

    @property
    def parts(self) -> dict[str, Stateful]:
        """The state for a checkpoint; only PyTorch's steps have a velocity."""
        if self._compiled:
            return {"model": self._compiled}
        return {"model": nn.ParameterDict({"weights": self._weights, "velocity": self._velocity})}

    @torch.inference_mode()
    def epoch(self, number: int) -> "Fit":
        """Take a step for each batch; return the fit of this rank's rows, each before its step.

        A batch is a block of consecutive rows. Seed and epoch alone determine the order of the
        blocks. A last, smaller block is left out. The epoch ends early at the deadline.
        """
        config, session, tracker = self._config, self._session, self._session.tracker
        generator = torch.Generator().manual_seed((config.seed << 20) + number)
        blocks = torch.randperm(self._steps, generator=generator)
        share = session.world.shard(config.batch_size)
        gradient = torch.empty_like(self._weights)
        progress = session.progress
        total = Fit(**progress.kept.get("fit", {}))
        # Scores and targets of the last steps: computing several losses at once is much faster.
        recent: list[tuple[torch.Tensor, torch.Tensor]] = [
            (scores.to(gradient.device), targets.to(gradient.device))
            for scores, targets in progress.kept.get("recent", ())
        ]
        if self._compiled:
            self._compiled.begin()
        firsts = (blocks * config.batch_size).tolist()
        for step, first in list(enumerate(firsts))[progress.batches :]:
            session.save_if_due()
            batch = self._samples[first + share.start : first + share.stop]
            epochs = number + step / self._steps
            rate = self._first_rate * math.pow(1 + epochs, -config.decay)
            if self._compiled:
                with tracker.phase("data"):
                    rows = batch.rows.dense(len(self._weights))
                scores = self._compiled.step(rows, batch.targets, rate)
            else:
                scores = self._step(batch, gradient, rate)
            tracker.step(samples=len(batch))
            recent.append((scores, batch.targets))
            passed = session.deadline_has_passed()
            if len(recent) == config.record_every or passed or step == self._steps - 1:
                with tracker.phase("metrics"):
                    fit = Fit.of(self._loss, *map(torch.cat, zip(*recent, strict=True)))
                    recent.clear()
                    total += fit
                    recorded = {names.TRAIN_LOSS: fit.loss, names.LEARNING_RATE: rate}
                    tracker.log(recorded, step=tracker.steps)
            progress.done({"fit": vars(total), "recent": recent})
            if passed:
                break
        if self._compiled:
            self._compiled.end()
        return total

    def _step(self, batch: SparseSamples, gradient: torch.Tensor, rate: float) -> torch.Tensor:
        """Take a step with all ranks; return the scores of this rank's rows before it."""
        config, session, tracker = self._config, self._session, self._session.tracker
        with tracker.phase("forward"):
            scores = batch.rows.scores(self._weights)
            slopes = self._loss.derivative(scores, batch.targets).div_(config.batch_size)
        with tracker.phase("backward"):
            batch.rows.weighted_sum_(gradient, slopes)
            session.execution.synchronize()
        with tracker.phase("communication"):
            session.world.sum_(gradient)
            session.execution.synchronize()
        with tracker.phase("optimizer"):
            if config.momentum:
                self._velocity.mul_(config.momentum).add_(gradient)
                self._velocity.add_(self._weights, alpha=config.l2)
                gradient.add_(self._velocity, alpha=config.momentum)
            self._weights.mul_(1 - rate * config.l2).add_(gradient, alpha=-rate)
        return scores


@torch.inference_mode()
def evaluate(
    model: LinearModel, weights: torch.Tensor, shard: SparseSamples, session: Session
) -> "Fit":
    """Return the fit over all ranks' shards together: the same on every rank."""
    total, size = Fit(), 8192
    with session.tracker.phase("evaluation"):
        for first in range(0, len(shard), size):
            part = shard[first : first + size]
            total += Fit.of(LOSSES[model], part.rows.scores(weights), part.targets)
        return total.over(session.world)


LossFunction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Loss:
    """A loss of scores ``[n]`` and targets ``[n]``, and its derivative.

    A linear model gives a row ``x`` the score ``s = w·x``. With a loss ``l(s, y)`` it minimizes

        F(w) = mean of l(w·x, y) over all rows + l2/2 |w|², whose gradient is   X^T d / n + l2 w

    with ``d = dl/ds`` of each row, so automatic differentiation is not needed. The losses are
    defined in Hastie, Tibshirani, Friedman: The Elements of Statistical Learning, 2nd edition,
    chapters 3.4 (ridge), 4.4 (logistic) and 12.3 (support vector machine).
    """

    value: LossFunction
    """Each row's loss ``[n]``."""
    derivative: LossFunction
    """Each row's derivative by its score ``[n]``."""
    smoothness: float
    """The largest second derivative by the score.

    The loss of a row ``x`` is L-smooth in ``w`` with L = smoothness times ``|x|²``, so gradient
    descent on it converges with steps of up to 2 / L.
    """


LOSSES: dict[LinearModel, Loss] = {
    # log(1 + exp(-y s)) for targets -1 and +1: minus the log likelihood, in nats.
    "logistic": Loss(
        value=lambda s, y: functional.softplus(-y * s),
        derivative=lambda s, y: (y * s).neg_().sigmoid_().mul_(y).neg_(),
        smoothness=0.25,
    ),
    # (s - y)² / 2.
    "ridge": Loss(
        value=lambda s, y: (s - y).square_().mul_(0.5),
        derivative=lambda s, y: s - y,
        smoothness=1.0,
    ),
    # max(0, 1 - y s)² for targets -1 and +1: LIBLINEAR's default (Fan et al.: LIBLINEAR, A Library
    # for Large Linear Classification, JMLR 9, 2008), and smooth, which max(0, 1 - y s) is not.
    "svm": Loss(
        value=lambda s, y: (1 - y * s).clamp_(min=0).square_(),
        derivative=lambda s, y: (1 - y * s).clamp_(min=0).mul_(y).mul_(-2),
        smoothness=2.0,
    ),
}


@dataclass(frozen=True)
class Fit(Sums):
    """How well scores fit their targets."""

    rows: float = 0.0
    loss_sum: float = 0.0
    right: float = 0.0
    """Rows whose score has the sign of the target."""
    target_sum: float = 0.0
    target_squares: float = 0.0

    @classmethod
    def of(cls, loss: Loss, scores: torch.Tensor, targets: torch.Tensor) -> Self:
        """Return the fit of scores ``[n]`` to targets ``[n]``."""
        targets = targets.double()
        sums = [
            loss.value(scores.double(), targets).sum(),
            (scores * targets > 0).sum(),
            targets.sum(),
            targets.square().sum(),
        ]
        return cls(float(len(targets)), *torch.stack(sums).tolist())

    @property
    def loss(self) -> float:
        """Mean loss, without the penalty."""
        return self.loss_sum / self.rows

    @property
    def accuracy(self) -> float:
        """Share of rows whose score has the sign of the target, in percent."""
        return 100 * self.right / self.rows

    @property
    def r2(self) -> float:
        """The coefficient of determination, if the loss is ``(s - y)² / 2``: 1 is a perfect fit.

        NaN where all targets are the same.
        """
        variation = self.target_squares - self.target_sum**2 / self.rows
        return 1 - 2 * self.loss_sum / variation if variation > 0 else math.nan


if __name__ == "__main__":
    run(main, LinearOptions)
