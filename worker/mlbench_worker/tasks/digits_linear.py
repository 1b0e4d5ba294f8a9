"""Handwritten digits, linear: multinomial logistic regression to 93 % validation accuracy.

Data: the 1,797 digits of 8x8 pixels that ship with scikit-learn. Every fifth of each digit, 364 in
all, is for validation. The other 1,433 are for training, without augmentation.
Model: ten scores, each a weighted sum of the 64 pixels and an intercept. The 650 weights begin at
zero. The loss is the cross entropy of the softmax plus the penalty ``l2/2 |w|²``, intercepts
included.
Algorithm: synchronous SGD, gradients in closed form. The workers share the 128 images of a step,
and their gradients are summed by all-reduce: any number of workers trains the same model, up to
rounding. Learning rate 0.5 and l2 0.0001, constant.
Goal: ``val_global_Prec@1`` of 93 % (light: 85 %), evaluated after each epoch of 11 steps. The model
levels off at about 95.5 %.

Measured with seeds 0 to 11, one thread per worker, all workers of a run on the same two cores of an
AMD EPYC (family 26) at 2.6 GHz that were busy with other programs; PyTorch 2.13, gloo. All 36
trials reach the goal, and the light goal in 1 or 2 epochs. Median, with the range:

    workers   epochs     seconds of training
    1         6 (4..8)   0.07 (0.06..0.13)
    2         6 (4..8)   0.19 (0.13..0.30)
    4         6 (4..8)   1.05 (0.64..1.67)
"""

import torch
from torch import nn
from torch.nn import functional

from mlbench.benchmarks.tasks import DigitsLinearOptions
from mlbench.contract import names
from mlbench_worker.data.digits import CLASSES, load_digits
from mlbench_worker.data.images import Images, shares_of_epoch
from mlbench_worker.ranks.rank_process import run
from mlbench_worker.training.frameworks import load, versions
from mlbench_worker.training.image_trainer import ImageScore
from mlbench_worker.training.session import start


@torch.inference_mode()
def main(config: DigitsLinearOptions) -> None:
    """Train until the goal is reached or all epochs are done."""
    with start(config) as session:
        world, tracker = session.world, session.tracker
        session.set_goal(config)

        data = load_digits()
        session.state_settings(
            config,
            **versions(config),
            data="digits",
            data_sha256=data.sha256,
            train_samples=len(data.train),
            validation_samples=len(data.validation),
        )
        rows, classes = pixels(data.train).to(world.device), data.train.labels.to(world.device)
        validation = data.validation.shard(world)
        session.say(f"{len(rows)} images to train, {len(data.validation)} to validate")

        weights = torch.zeros(rows.shape[1], CLASSES, device=world.device)
        compiled = None
        if config.framework != "torch":
            compiled = load(config.framework).linear_steps(session, config, weights)
        rate = config.learning_rate
        model = compiled or nn.ParameterDict({"weights": weights})
        for epoch in session.epochs(config, {"model": model}):
            if compiled:
                compiled.begin()
            generator = torch.Generator().manual_seed((config.seed << 20) + epoch)
            shares = shares_of_epoch(len(rows), config.batch_size, world, generator)
            for share in shares[session.progress.batches :]:
                session.save_if_due()
                with tracker.phase("data"):
                    batch, right = rows[share], classes[share]
                if compiled:
                    scores = compiled.step(batch, right, rate)
                else:
                    with tracker.phase("forward"):
                        scores = batch @ weights
                    with tracker.phase("backward"):
                        slopes = softmax_derivative(scores, right) / config.batch_size
                        gradient = batch.T @ slopes
                    with tracker.phase("communication"):
                        world.sum_(gradient)
                    with tracker.phase("optimizer"):
                        weights.mul_(1 - rate * config.l2).add_(gradient, alpha=-rate)
                with tracker.phase("metrics"):
                    loss = functional.cross_entropy(scores, right, reduction="none").mean()
                    tracker.step(samples=len(share), train_loss=loss.item(), learning_rate=rate)
                session.progress.done({})
                if session.deadline_has_passed():
                    break
            with tracker.phase("evaluation"):
                if compiled:
                    compiled.end()
                right = validation.labels.to(world.device)
                scores = pixels(validation).to(world.device) @ weights
                losses = functional.cross_entropy(scores, right, reduction="none")
                validated = ImageScore.of(scores, right, losses.sum()).over(world)
            # Every rank records the same values, so that all agree on when to stop.
            tracker.log(
                {names.VAL_LOSS: validated.loss, names.VAL_ACCURACY: validated.accuracy},
                step=tracker.steps,
            )
            print(
                f"epoch {epoch}, step {tracker.steps}: validation loss {validated.loss:.3f}, "
                f"validation accuracy {validated.accuracy:.2f} %, {tracker.train_seconds:.2f} s",
                flush=True,
            )


def pixels(data: Images) -> torch.Tensor:
    """Return ``[n, 65]``: each image's 64 pixels, and a 1 whose weights are the intercepts."""
    rows = data.images.flatten(start_dim=1)
    return torch.cat([rows, torch.ones(len(rows), 1)], dim=1)


def softmax_derivative(scores: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    """Return the derivative of the cross entropy by the scores ``[n, classes]``: softmax(s) - e_y.

    ``e_y`` is 1 at the right class (Hastie, Tibshirani, Friedman: The Elements of Statistical
    Learning, 2nd edition, chapter 4.4).
    """
    derivative = scores.softmax(dim=1)
    derivative[torch.arange(len(classes)), classes] -= 1
    return derivative


if __name__ == "__main__":
    run(main, DigitsLinearOptions)
