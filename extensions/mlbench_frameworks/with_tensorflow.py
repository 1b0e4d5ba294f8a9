"""TensorFlow: a step is one ``tf.function`` in a ``MultiWorkerMirroredStrategy``, over gRPC.

It computes the gradients, sums them over the ranks as one array, and updates the parameters.
"""

import json
import os
from typing import Any

import torch

# TensorFlow reads these variables when it is imported: no GPU, and only errors on stderr.
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import numpy as np
import tensorflow as tf

from mlbench_frameworks.compiled import Batch, Sgd, State, exchange_addresses
from mlbench_frameworks.models import Array, Model, Net
from mlbench_frameworks.training import CompiledFramework
from mlbench_worker.ranks.distributed import World, WorldError


class TensorFlowOperations:
    """Operations of ``tf.nn`` and ``tf.math``."""

    relu = staticmethod(tf.nn.relu)
    softplus = staticmethod(tf.nn.softplus)
    rsqrt = staticmethod(tf.math.rsqrt)
    reshape = staticmethod(tf.reshape)
    mean = staticmethod(tf.reduce_mean)

    @staticmethod
    def product(rows: Array, weights: Array) -> Array:
        return tf.linalg.matvec(rows, weights) if len(weights.shape) == 1 else rows @ weights

    @staticmethod
    def conv(x: Array, kernel: Array, stride: int, padding: int) -> Array:
        around = [[0, 0], [padding, padding], [padding, padding], [0, 0]]
        return tf.nn.conv2d(x, kernel, stride, around)

    @staticmethod
    def batch_norm(x: Array, weight: Array, bias: Array) -> tuple[Array, Array, Array]:
        return tuple(tf.compat.v1.nn.fused_batch_norm(x, weight, bias, epsilon=1e-5))

    @staticmethod
    def pad(x: Array, channels: int) -> Array:
        return tf.pad(x, 3 * [[0, 0]] + [[channels, channels]])

    @staticmethod
    def cross_entropy(logits: Array, labels: Array) -> Array:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


class TensorFlowCompiled:
    """A model in training. Buffers differ between ranks, the rest is the same on all."""

    def __init__(self, model: Model, sgd: Sgd, world: World, example: Batch) -> None:
        """Join the other ranks, and trace the step for batches of the example's shape."""
        self._model, self._sgd, self._world = model, sgd, world
        self._strategy = _join(world)
        with self._strategy.scope():
            self._variables = tuple(
                {name: tf.Variable(value) for name, value in values.items()}
                for values in vars(State.begin(model)).values()
            )
        self._parameters, self._velocities, self._buffers = self._variables
        arguments = (example.inputs, example.targets, example.weights)
        rate = tf.TensorSpec((), example.weights.dtype)
        step_of_all = tf.function(
            lambda *arguments: self._strategy.run(self._step_of_rank, arguments), autograph=False
        )
        self._step = step_of_all.get_concrete_function(
            *(tf.TensorSpec(argument.shape, argument.dtype) for argument in arguments), rate
        )
        self._scores = tf.function(
            lambda inputs: self._model.forward(self._net(training=False), inputs), autograph=False
        )

    def step(self, batch: Batch, rate: float) -> np.ndarray:
        arguments = (batch.inputs, batch.targets, batch.weights, batch.weights.dtype.type(rate))
        try:
            scores: np.ndarray = self._step(*map(tf.constant, arguments)).numpy()
        except tf.errors.OpError as error:
            raise WorldError(f"{self._world} lost a peer: {error.message}") from error
        return scores

    def scores(self, inputs: np.ndarray) -> np.ndarray:
        scores: np.ndarray = self._scores(tf.constant(inputs)).numpy()
        return scores

    def state(self) -> State:
        return State(
            *(
                {name: variable.numpy() for name, variable in variables.items()}
                for variables in self._variables
            )
        )

    def load(self, state: State) -> None:
        for variables, values in zip(self._variables, vars(state).values(), strict=True):
            for name, variable in variables.items():
                variable.assign(values[name])

    def leave(self) -> None:
        """Wait for the other ranks, which would report a rank that leaves first as lost."""
        self._world.sum_(torch.zeros(1))

    def _step_of_rank(self, inputs: Array, targets: Array, weights: Array, rate: Array) -> Array:
        variables = list(self._parameters.values())
        with tf.GradientTape() as tape:
            net = self._net(training=True)
            scores = self._model.forward(net, inputs)
            losses = self._model.loss(net.ops, scores, targets)
            loss = tf.reduce_sum(losses * weights)
        gradients = tape.gradient(loss, variables)
        # The mean over the rows of all ranks, summed as one array.
        flat = tf.concat([tf.reshape(gradient, [-1]) for gradient in gradients], axis=0)
        summed = tf.distribute.get_replica_context().all_reduce("sum", flat)
        sizes = [gradient.shape.num_elements() for gradient in gradients]
        means = tf.split(summed / self._sgd.batch_size, sizes)
        momentum, decay = self._sgd.momentum, self._sgd.weight_decay
        velocities = self._velocities.values()
        for variable, velocity, mean in zip(variables, velocities, means, strict=True):
            gradient = tf.reshape(mean, variable.shape)
            velocity.assign(momentum * velocity + gradient + decay * variable)
            variable.assign_sub(rate * velocity)
        for name, new in net.updated.items():
            self._buffers[name].assign(new)
        return scores

    def _net(self, *, training: bool) -> Net:
        weights = {**self._parameters, **self._buffers}
        return Net(TensorFlowOperations(), weights, training)


def _join(world: World) -> Any:
    """Set up the threads, and return the strategy over all ranks' processes."""
    tf.config.threading.set_intra_op_parallelism_threads(torch.get_num_threads())
    tf.config.threading.set_inter_op_parallelism_threads(1)
    if world.size == 1:
        return tf.distribute.get_strategy()
    cluster = {"worker": exchange_addresses(world)}
    task = {"type": "worker", "index": world.rank}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
    ring = tf.distribute.experimental.CommunicationImplementation.RING
    return tf.distribute.MultiWorkerMirroredStrategy(
        communication_options=tf.distribute.experimental.CommunicationOptions(
            implementation=ring, timeout_seconds=60.0
        )
    )


FRAMEWORK = CompiledFramework("tensorflow", tf.__version__, TensorFlowCompiled)
