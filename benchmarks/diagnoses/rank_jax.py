"""A rank that trains by JAX, until one of its run hangs; run as ``rank.py`` is."""

import os

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

from benchmarks.diagnoses.hangs import train

if __name__ == "__main__":
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    jax.distributed.initialize(address, int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))
    train(lambda: multihost_utils.process_allgather(jnp.ones(3)), jax.process_index())
