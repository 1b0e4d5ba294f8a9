"""A rank that trains by JAX, until one of its run hangs; run as ``rank.py`` is."""

import os
import random
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

from benchmarks.autopsies.hangs import HANGS


def train(hang: str, culprit: int, seed: int, folder: Path) -> None:
    """Train, and hang at a step that the seed chooses."""
    last = random.Random(seed).randrange(3, 30)  # noqa: S311 - no secret
    for step in range(1000):
        if step == last:
            (folder / f"begun-{jax.process_index()}").touch()
            if jax.process_index() == culprit:
                HANGS[hang](folder)
        multihost_utils.process_allgather(jnp.ones(3))


if __name__ == "__main__":
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    jax.distributed.initialize(address, int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))
    train(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
