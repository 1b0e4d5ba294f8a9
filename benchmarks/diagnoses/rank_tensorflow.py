"""A rank that trains by TensorFlow, until one of its run hangs; run as ``rank.py`` is."""

import json
import os

import tensorflow as tf

from benchmarks.diagnoses.hangs import train

RANK, WORLD_SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def main() -> None:
    """Train."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    context = tf.distribute.get_replica_context

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> tf.Tensor:
        return strategy.run(lambda: context().all_reduce("sum", tf.ones(3)))

    train(step, RANK)


if __name__ == "__main__":
    first = int(os.environ["MASTER_PORT"])
    workers = [f"127.0.0.1:{first + number}" for number in range(WORLD_SIZE)]
    about = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": RANK}}
    os.environ["TF_CONFIG"] = json.dumps(about)
    main()
