"""What a run should get done between failures, by the checkpoint interval: Young and Daly. Pure.

Failures are assumed to come independently, exponentially distributed. Sources: J. W. Young (1974),
"A first order approximation to the optimum checkpoint interval", Communications of the ACM 17(9),
530-531; J. T. Daly (2006), "A higher order estimate of the optimum checkpoint interval for restart
dumps", Future Generation Computer Systems 22(3), 303-312. All times are seconds.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """What failures meet."""

    checkpoint: float
    """For how long a checkpoint keeps the training from going on."""
    restart: float
    """From where its processes begin again to where the training goes on from its checkpoint."""
    between: float
    """The mean time for which processes run between two failures; infinite if there are none."""
    down: float = 0.0
    """From a failure to where processes begin again: none runs that could fail. Daly has none."""


def goodput(interval: float, costs: Costs) -> float:
    """Return the share of time that is kept, with a checkpoint after each ``interval`` of training.

    That is the solve time by the total wall time of Daly's complete model: a failure may also hit a
    checkpoint or a restart. Each failure adds the time in which no process runs.
    """
    if math.isinf(costs.between):
        return interval / (interval + costs.checkpoint)
    try:
        again = math.exp(costs.restart / costs.between)
        cycle = costs.between + costs.down
        took = cycle * again * math.expm1((interval + costs.checkpoint) / costs.between)
    except OverflowError:
        return 0.0
    return interval / took


def youngs_interval(costs: Costs) -> float:
    """Return Young's interval between checkpoints: where they are short beside failures."""
    return math.sqrt(2 * costs.checkpoint * costs.between)


def best_interval(costs: Costs) -> float:
    """Return Daly's higher order interval between checkpoints, which holds for long ones too.

    The best one depends neither on the cost of a restart nor on the time without processes.
    """
    if costs.checkpoint >= 2 * costs.between:
        return costs.between
    half = math.sqrt(costs.checkpoint / (2 * costs.between))
    return youngs_interval(costs) * (1 + half / 3 + half**2 / 9) - costs.checkpoint
