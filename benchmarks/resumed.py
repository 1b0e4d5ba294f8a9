"""Whether a training that is killed twenty times is the undisturbed one, to the last bit."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.stacks import local_stack
from tests.support.resuming import train

_KILLS, _EPOCHS = 20, 10


def measure(folder: Path) -> Iterator[str]:
    """Train with and without the kills, on two workers and on three, and compare all values."""
    for workers in (2, 3):
        with local_stack(folder / str(workers), workers) as (home, client):
            whole, killed = (train(client, home, workers, _EPOCHS, n) for n in (0, _KILLS))
        discarded = sum(resumption.discarded_steps for resumption in killed.result.resumptions)
        values = sum(map(len, whole.curves.values()))
        yield (
            f"{workers} workers, {_KILLS} kills, {discarded} steps done again: {values} values, "
            f"result and bytes sent {'are equal' if killed.equals(whole) else 'DIFFER'}"
        )
