"""A rank that trains by TensorFlow, until one of its run hangs; run as ``rank.py`` is."""

import json
import os
import random
import sys
from pathlib import Path

import tensorflow as tf

from benchmarks.autopsies.hangs import HANGS

RANK, WORLD_SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def train(hang: str, culprit: int, seed: int, folder: Path) -> None:
    """Train, and hang at a step that the seed chooses."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    context = tf.distribute.get_replica_context

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> tf.Tensor:
        return strategy.run(lambda: context().all_reduce("sum", tf.ones(3)))

    last = random.Random(seed).randrange(3, 30)  # noqa: S311 - no secret
    for number in range(1000):
        if number == last:
            (folder / f"begun-{RANK}").touch()
            if culprit == RANK:
                HANGS[hang](folder)
        step()


if __name__ == "__main__":
    first = int(os.environ["MASTER_PORT"])
    workers = [f"127.0.0.1:{first + number}" for number in range(WORLD_SIZE)]
    about = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": RANK}}
    os.environ["TF_CONFIG"] = json.dumps(about)
    train(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
