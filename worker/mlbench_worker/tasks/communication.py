"""Communication: how fast the workers' backend moves messages of every size, without training.

Operations: all-reduce (sum), broadcast from rank 0, and all-gather through PyTorch's API, on
messages from 4 B to 256 MiB, each twice as large as the one before.
Figures: as nccl-tests defines them (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md). Time is the
mean of one operation over consecutive rounds and over the ranks. Algorithm bandwidth is the
message's bytes divided by that time; the message of an all-gather is its result. Bus bandwidth is
comparable with the hardware's bandwidth for any number n of ranks: algorithm bandwidth times
2 (n - 1) / n for all-reduce, (n - 1) / n for all-gather, 1 for broadcast. For each size, one round
moves known values, all of which are checked. The timed rounds move zeros.

Measured with two ranks on gloo and loopback, one thread each, on two cores of an AMD EPYC
(family 26) at 2.6 GHz that also ran other programs; PyTorch 2.13, float32. Median of 5 trials, with
the range:

    operation     smallest message: time     64 MiB: algorithm bandwidth   bus bandwidth
    all_reduce    4 B: 412 us (355..520)     0.82 GB/s (0.50..0.97)        0.82 GB/s
    broadcast     4 B: 539 us (326..782)     1.98 GB/s (0.91..2.62)        1.98 GB/s
    all_gather    8 B: 572 us (470..855)     0.51 GB/s (0.30..0.58)        0.26 GB/s
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import torch
import torch.distributed as dist

from mlbench import MLBenchError
from mlbench.benchmarks.task_options import DeviceOptions
from mlbench.benchmarks.tasks import MIN_ROUNDS, CommunicationOptions
from mlbench.contract import names
from mlbench_worker.ranks.distributed import World, WorldError, set_up
from mlbench_worker.ranks.rank_process import run
from mlbench_worker.training.session import Session, start

_PERIOD = 251
"""Length of a rank's pattern of values. A prime: misplaced parts of a message do not match."""
_HEADING = """\
        size        count  rounds        time    algbw    busbw  #wrong
         (B)   (elements)                (us)   (GB/s)   (GB/s)"""

Figures = dict[names.MessageFigure, float]
"""Measurements for one message size; ``wrong_values`` is absent if values were not checked."""


class WrongValuesError(MLBenchError):
    """An operation returned wrong values, so none of the run's figures can be trusted."""


class Message:
    """This rank's buffers for one message: ``whole``, and its ``part`` of an all-gather."""

    def __init__(self, count: int, dtype: torch.dtype, world: World, device: torch.device) -> None:
        self.world = world
        self.whole = torch.empty(count, dtype=dtype, device=device)
        self.part = torch.empty(count // world.size, dtype=dtype, device=device)
        # Zeros and ones, so that sums are exact in every type.
        bits = torch.randint(2, (world.size, _PERIOD), generator=torch.Generator().manual_seed(0))
        self.patterns = bits.to(dtype=dtype, device=device)

    def fill(self) -> None:
        """Fill both buffers with this rank's pattern."""
        pattern = self.patterns[self.world.rank]
        for values in (self.whole, self.part):
            rows, rest = _rows(values)
            rows.copy_(pattern.expand_as(rows))
            rest.copy_(pattern[: len(rest)])

    def clear(self) -> None:
        """Set all values to zero: repeated sums then stay zero, and cannot overflow."""
        self.whole.zero_()
        self.part.zero_()


@dataclass(frozen=True)
class CollectiveOperation:
    """A collective operation on a message."""

    run: Callable[[Message], object]
    count_wrong: Callable[[Message], int]
    """Number of values in the result that differ from those expected of the ranks' patterns."""
    bus_factor: Callable[[int], float]
    """Ratio of bus bandwidth to algorithm bandwidth, for a number of ranks."""
    shared: bool = False
    """Whether each rank contributes an equally long part of the message."""


def _all_gather(message: Message) -> None:
    if dist.get_backend() == "mpi":
        dist.all_gather(list(message.whole.chunk(message.world.size)), message.part)
    else:
        dist.all_gather_single(message.whole, message.part)


COLLECTIVES = {
    "all_reduce": CollectiveOperation(
        run=lambda message: dist.all_reduce(message.whole),
        count_wrong=lambda message: _count_wrong(
            message.whole, message.patterns.sum(0, dtype=message.whole.dtype)
        ),
        bus_factor=lambda ranks: 2 * (ranks - 1) / ranks,
    ),
    "broadcast": CollectiveOperation(
        run=lambda message: dist.broadcast(message.whole, src=0),
        count_wrong=lambda message: _count_wrong(message.whole, message.patterns[0]),
        bus_factor=lambda ranks: 1.0,
    ),
    "all_gather": CollectiveOperation(
        run=_all_gather,
        count_wrong=lambda message: sum(
            map(_count_wrong, message.whole.chunk(message.world.size), message.patterns)
        ),
        bus_factor=lambda ranks: (ranks - 1) / ranks,
        shared=True,
    ),
}


def _count_wrong(values: torch.Tensor, pattern: torch.Tensor) -> int:
    """Return how many of the values ``[n]`` differ from the repeated pattern."""
    rows, rest = _rows(values)
    wrong = torch.count_nonzero(rows != pattern) + torch.count_nonzero(rest != pattern[: len(rest)])
    return int(wrong.item())


def _rows(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return views of the values: rows as long as a pattern, and the shorter rest."""
    whole = len(values) - len(values) % _PERIOD
    return values[:whole].view(-1, _PERIOD), values[whole:]


def measure(
    collective: CollectiveOperation,
    message: Message,
    config: CommunicationOptions,
    session: Session,
) -> tuple[int, Figures]:
    """Check and time an operation on a message; return the number of rounds and the figures.

    Both are the same on every rank.
    """
    world, execution = session.world, session.execution

    def seconds_of(rounds: int) -> float:
        """Return the mean seconds of a round over all ranks."""
        world.total(0.0)  # a barrier: all ranks begin together
        with session.tracker.phase("communication"), world.noticing_lost_peers():
            execution.synchronize()
            began = perf_counter()
            for _ in range(rounds):
                collective.run(message)
            execution.synchronize()
            seconds = (perf_counter() - began) / rounds
        return world.total(seconds) / world.size

    figures: Figures = {}
    if config.check:
        with session.tracker.phase("evaluation"):
            message.fill()
            with world.noticing_lost_peers():
                collective.run(message)
            figures["wrong_values"] = round(world.total(collective.count_wrong(message)))
    message.clear()
    # The mean over all ranks, so that all choose the same number of rounds.
    fitting = int(config.seconds / seconds_of(config.warmup))
    rounds = min(max(fitting, MIN_ROUNDS), config.rounds)
    seconds = seconds_of(rounds)
    bandwidth = message.whole.nbytes / seconds
    figures["seconds"] = seconds
    figures["algorithm_bandwidth_bytes_per_second"] = bandwidth
    figures["bus_bandwidth_bytes_per_second"] = bandwidth * collective.bus_factor(world.size)
    return rounds, figures


def sweep(operation: str, dtype: str, config: CommunicationOptions, session: Session) -> int:
    """Measure an operation over all message sizes; return the number of wrong values.

    Rank 0 prints and records the figures.
    """
    world, collective, kind = session.world, COLLECTIVES[operation], getattr(torch, dtype)
    if world.rank == 0:
        print(f"{operation}, {dtype}, {world.size} ranks, {config.backend}\n{_HEADING}", flush=True)
    parts, wrong = world.size if collective.shared else 1, 0
    counts: dict[int, None] = {}
    size = config.min_bytes
    while size <= config.max_bytes:
        # Whole values only: small sizes that round to the same number are measured once.
        counts[max(1, size // kind.itemsize // parts) * parts] = None
        size *= config.factor
    for count in counts:
        message = Message(count, kind, world, session.execution.device)
        rounds, figures = measure(collective, message, config, session)
        wrong += int(figures.get("wrong_values", 0))
        recorded: dict[str, float] = {}
        if world.rank == 0:
            size = message.whole.nbytes
            print(
                f"{size:12} {count:12} {rounds:7} {figures['seconds'] * 1e6:11.1f} "
                f"{figures['algorithm_bandwidth_bytes_per_second'] / 1e9:8.3f} "
                f"{figures['bus_bandwidth_bytes_per_second'] / 1e9:8.3f} "
                f"{figures.get('wrong_values', '-'):>7}",
                flush=True,
            )
            recorded = {
                names.message_metric(operation, dtype, figure): value
                for figure, value in figures.items()
            }
            recorded[names.MESSAGE_BYTES] = size
        session.tracker.step(samples=0, **recorded)
    return wrong


def main(config: CommunicationOptions) -> None:
    """Measure each operation with each data type; fail if any value is wrong."""
    with start(config) as session:
        if session.world.size == 1:
            raise WorldError("communication: must have at least 2 workers (got 1)")
        if config.device != "auto":
            session.execution = set_up(DeviceOptions(config.device), session.world)
        session.state_settings(config)

        sweeps = [(o, d) for d in config.dtypes.split(",") for o in config.operations.split(",")]
        wrong = 0
        for number, (operation, dtype) in enumerate(sweeps):
            if session.deadline_has_passed():
                break
            session.tracker.epoch(number)
            wrong += sweep(operation, dtype, config, session)
        if wrong:
            raise WrongValuesError(f"{wrong} values were wrong: see the column #wrong")


if __name__ == "__main__":
    run(main, CommunicationOptions)
