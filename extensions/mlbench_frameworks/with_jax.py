"""JAX: a step is one program over all ranks, by ``shard_map``, with gloo between the processes.

It computes the gradients, sums them over the ranks, and updates the parameters. The gradients are
summed as one array, because XLA would sum array by array, each as slow as the whole.
"""

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

# JAX reads these variables when it is imported: PyTorch's number of threads, and no GPU.
os.environ["PJRT_NPROC"] = str(torch.get_num_threads())
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.sharding import NamedSharding, PartitionSpec
from jaxlib import _jax

from mlbench_frameworks.compiled import Batch, Sgd, State, exchange_addresses
from mlbench_frameworks.models import Array, Model, Net
from mlbench_frameworks.training import CompiledFramework
from mlbench_worker.ranks.distributed import World, WorldError

_RANKS = "ranks"
_TIMEOUT_SECONDS = 60


class JaxOperations:
    """Operations of ``jax.numpy`` and ``jax.lax``."""

    product = staticmethod(jnp.matmul)
    mean = staticmethod(jnp.mean)
    relu = staticmethod(jax.nn.relu)
    softplus = staticmethod(jax.nn.softplus)
    rsqrt = staticmethod(lax.rsqrt)
    reshape = staticmethod(jnp.reshape)

    @staticmethod
    def conv(x: Array, kernel: Array, stride: int, padding: int) -> Array:
        strides, layout = (stride, stride), ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(
            x, kernel, strides, 2 * [(padding, padding)], dimension_numbers=layout
        )

    @staticmethod
    def batch_norm(x: Array, weight: Array, bias: Array) -> tuple[Array, Array, Array]:
        count = x.size // x.shape[-1]
        mean, variance = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
        normalized = (x - mean) * (lax.rsqrt(variance + 1e-5) * weight) + bias
        return normalized, mean, variance * (count / (count - 1))

    @staticmethod
    def pad(x: Array, channels: int) -> Array:
        return jnp.pad(x, 3 * ((0, 0),) + ((channels, channels),))

    @staticmethod
    def cross_entropy(logits: Array, labels: Array) -> Array:
        right = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
        return jax.nn.logsumexp(logits, axis=1) - right


class JaxCompiled:
    """A model in training. Buffers differ between ranks, the rest is the same on all."""

    def __init__(self, model: Model, sgd: Sgd, world: World, example: Batch) -> None:
        """Join the other ranks, and compile the step for batches of the example's shape."""
        self._model, self._sgd, self._world = model, sgd, world
        self._state: tuple[Any, ...]
        _join(world)
        mesh = jax.make_mesh((world.size,), (_RANKS,))
        same, each = PartitionSpec(), PartitionSpec(_RANKS)
        self._same, self._each = (NamedSharding(mesh, spec) for spec in (same, each))
        self.load(State.begin(model))
        step = jax.shard_map(
            self._step_of_rank,
            mesh=mesh,
            in_specs=((same, same, each), each, same),
            out_specs=((same, same, each), each),
        )
        arguments = (self._state, self._placed(example), 0.0)
        self._step = jax.jit(step, donate_argnums=0).lower(*arguments).compile()

        def scores_of(
            parameters: Mapping[str, Array], buffers: Mapping[str, Array], inputs: Array
        ) -> Array:
            net = Net(JaxOperations(), {**parameters, **buffers}, training=False)
            return model.forward(net, inputs)

        self._scores = jax.jit(scores_of)

    def step(self, batch: Batch, rate: float) -> np.ndarray:
        try:
            self._state, scores = self._step(self._state, self._placed(batch), rate)
            return np.asarray(scores.addressable_data(0))
        except (ValueError, jax.errors.JaxRuntimeError) as error:  # gloo raises either
            raise WorldError(f"{self._world} lost a peer: {error}") from error

    def scores(self, inputs: np.ndarray) -> np.ndarray:
        parameters, _, buffers = jax.tree.map(lambda array: array.addressable_data(0), self._state)
        return np.asarray(self._scores(parameters, _first(buffers), inputs))

    def state(self) -> State:
        parameters, velocities, buffers = jax.tree.map(
            lambda array: np.array(array.addressable_data(0)), self._state
        )
        return State(parameters, velocities, _first(buffers))

    def load(self, state: State) -> None:
        place = jax.make_array_from_process_local_data
        self._state = (
            {name: place(self._same, array) for name, array in state.parameters.items()},
            {name: place(self._same, array) for name, array in state.velocities.items()},
            {name: place(self._each, array[None]) for name, array in state.buffers.items()},
        )

    def leave(self) -> None:
        if self._world.size > 1:
            jax.distributed.shutdown()

    def _placed(self, batch: Batch) -> tuple[Array, ...]:
        """Return the batch of all ranks, as arrays of which each rank has its part."""
        parts = (batch.inputs, batch.targets, batch.weights)
        return tuple(jax.make_array_from_process_local_data(self._each, part) for part in parts)

    def _step_of_rank(
        self, state: tuple[Any, ...], batch: tuple[Array, ...], rate: Array
    ) -> tuple[tuple[Any, ...], Array]:
        parameters, velocities, buffers = state
        inputs, targets, weights = batch
        own = _first(buffers)

        def loss_of(parameters: Mapping[str, Array]) -> tuple[Array, tuple[Array, Any]]:
            net = Net(JaxOperations(), {**parameters, **own}, training=True)
            scores = self._model.forward(net, inputs)
            losses = self._model.loss(net.ops, scores, targets)
            return jnp.sum(losses * weights), (scores, net.updated)

        # With shared parameters, JAX would sum the gradient of each array separately.
        own_parameters = lax.pcast(parameters, _RANKS, to="varying")
        gradients, (scores, updated) = jax.grad(loss_of, has_aux=True)(own_parameters)
        flat, unflatten = ravel_pytree(gradients)
        mean = unflatten(lax.psum(flat, _RANKS) / self._sgd.batch_size)
        momentum, decay = self._sgd.momentum, self._sgd.weight_decay
        velocities = {
            name: momentum * velocities[name] + mean[name] + decay * parameters[name]
            for name in mean
        }
        parameters = {name: parameters[name] - rate * velocities[name] for name in mean}
        buffers = {name: array[None] for name, array in (own | updated).items()}
        return (parameters, velocities, buffers), scores


def _first(buffers: Mapping[str, Array]) -> dict[str, Array]:
    return {name: array[0] for name, array in buffers.items()}


def _join(world: World) -> None:
    """Connect JAX with the processes of all ranks, each with the CPU as a device."""
    if world.size == 1:
        return
    # JAX would catch SIGTERM, which must end the process.
    jax.config.update("jax_enable_preemption_service", False)
    first, *_ = addresses = exchange_addresses(world)
    jax.distributed.initialize(
        first,
        num_processes=world.size,
        process_id=world.rank,
        initialization_timeout=_TIMEOUT_SECONDS,
        heartbeat_timeout_seconds=_TIMEOUT_SECONDS,
        shutdown_timeout_seconds=_TIMEOUT_SECONDS,
    )
    # By default gloo listens on the address of the host's name, which may be another network.
    host = addresses[world.rank].rpartition(":")[0].strip("[]")
    _jax.make_gloo_tcp_collectives = partial(_jax.make_gloo_tcp_collectives, hostname=host)


FRAMEWORK = CompiledFramework("jax", jax.__version__, JaxCompiled)
