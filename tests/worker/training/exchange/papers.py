"""The algorithms as written in their papers: computed for all ranks in a single process.

Each function takes the number of ranks and yields the ranks' weights after each step.
"""

import functools
from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tests.worker.training.exchange import tiny

Vector = NDArray[np.float64]
Steps = Iterator[list[Vector]]
Compress = Callable[[Vector], Vector]

LAYERS = [108, 4, 128, 8]
_RATE = tiny.RATE


def start() -> Vector:
    """Return the initial weights of all ranks."""
    return tiny.weights_of(tiny.make_model()).double().numpy()


@functools.cache
def _model() -> nn.Module:
    return tiny.make_model()


def gradient(weights: Vector, step: int, rank: int) -> Vector:
    """Return the gradient of a rank's loss in a step, at the given weights."""
    model = _model()
    for parameter, part in zip(model.parameters(), of_layers(weights), strict=True):
        flat = torch.from_numpy(part).float()
        parameter.data = flat.as_strided(parameter.shape, parameter.stride())
    loss = tiny.loss_of(model, step, rank)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    ordered = [
        torch.empty_like(p, memory_format=torch.preserve_format).copy_(g)
        for p, g in zip(model.parameters(), gradients, strict=True)
    ]
    return tiny.in_memory(ordered).double().numpy()


def of_layers(vector: Vector) -> list[Vector]:
    """Return the parts of a vector that belong to the layers."""
    return np.split(vector, np.cumsum(LAYERS)[:-1])


def synchronous(ranks: int) -> Steps:
    """The mean of all gradients."""
    x = start()
    for t in range(tiny.STEPS):
        x = x - _RATE * np.mean([gradient(x, t, k) for k in range(ranks)], axis=0)
        yield [x] * ranks


def local_sgd(ranks: int, local_steps: int, first: int = 0) -> Steps:
    """Lin et al. 2020, algorithm 1, with mini-batch SGD before the step ``first``."""
    x = [start()] * ranks
    for t in range(tiny.STEPS):
        gradients = [gradient(x[k], t, k) for k in range(ranks)]
        if t < first:
            gradients = [np.mean(gradients, axis=0)] * ranks
        x = [x[k] - _RATE * gradients[k] for k in range(ranks)]
        if t >= first and (t - first + 1) % local_steps == 0:
            x = [np.mean(x, axis=0)] * ranks
        yield x


def mixing(ranks: int, topology: str) -> Vector:
    """Return the mixing matrix W of a topology."""
    w = np.zeros((ranks, ranks))
    for i in range(ranks):
        for j in range(ranks):
            w[i, j] = topology == "complete" or (i - j) % ranks in {0, 1, ranks - 1}
    w /= w.sum(axis=1, keepdims=True)
    return w


def d_psgd(ranks: int, topology: str) -> Steps:
    """Lian et al. 2017, algorithm 1."""
    w = mixing(ranks, topology)
    x = [start()] * ranks
    for t in range(tiny.STEPS):
        gradients = [gradient(x[i], t, i) for i in range(ranks)]
        half = [sum(w[i, j] * x[j] for j in range(ranks)) for i in range(ranks)]
        x = [half[i] - _RATE * gradients[i] for i in range(ranks)]
        yield x


def choco_sgd(ranks: int, topology: str, compress: Compress, gamma: float) -> Steps:
    """Koloskova et al. 2019, algorithm 2. The copies start with the weights."""
    w = mixing(ranks, topology)
    x = [start()] * ranks
    copies = [start()] * ranks
    for t in range(tiny.STEPS):
        half = [x[i] - _RATE * gradient(x[i], t, i) for i in range(ranks)]
        q = [compress(half[i] - copies[i]) for i in range(ranks)]
        copies = [copies[i] + q[i] for i in range(ranks)]
        x = [
            half[i] + gamma * sum(w[i, j] * (copies[j] - copies[i]) for j in range(ranks))
            for i in range(ranks)
        ]
        yield x


def with_memory(ranks: int, compress: Callable[[Vector, int], Vector]) -> Steps:
    """Stich et al. 2018 and Karimireddy et al. 2019, algorithm 1, for several workers."""
    x = start()
    memory = [np.zeros_like(x)] * ranks
    for t in range(tiny.STEPS):
        p = [memory[k] + _RATE * gradient(x, t, k) for k in range(ranks)]
        sent = [compress(p[k], t) for k in range(ranks)]
        memory = [p[k] - sent[k] for k in range(ranks)]
        x = x - np.mean(sent, axis=0)
        yield [x] * ranks


def sign(v: Vector) -> Vector:
    """Karimireddy et al. 2019, section 6: the signs of a layer times its 1-norm divided by d.

    Zero counts as positive, because a bit has only two values.
    """
    signs = [np.where(p >= 0, 1, -1) for p in of_layers(v)]
    return np.concatenate(
        [np.abs(p).sum() / len(p) * s for p, s in zip(of_layers(v), signs, strict=True)]
    )


def top_k(v: Vector, k: int) -> Vector:
    """Stich et al. 2018, definition 2.2: the k largest magnitudes, and zero elsewhere."""
    kept = np.zeros_like(v)
    largest = np.argsort(-np.abs(v))[:k]
    kept[largest] = v[largest]
    return kept


def rand_k(v: Vector, k: int, step: int) -> Vector:
    """Stich et al. 2018, definition 2.2: k random coordinates, and zero elsewhere."""
    kept = np.zeros_like(v)
    drawn = np.random.default_rng((tiny.SEED, step)).choice(len(v), k, False, shuffle=False)
    kept[drawn] = v[drawn]
    return kept


def qsgd(ranks: int, bits: int) -> Steps:
    """Alistarh et al. 2017, section 3.1, with the maximum as the norm, in a single bucket."""
    x = start()
    s = 2 ** (bits - 1) - 1
    for t in range(tiny.STEPS):
        rounded = []
        for k in range(ranks):
            v = gradient(x, t, k)
            norm = np.abs(v).max()
            chances = np.random.default_rng((tiny.SEED, t, k)).random(len(v), dtype=np.float32)
            xi = []
            for value, chance in zip(np.abs(v) / norm, chances, strict=True):
                level = np.floor(value * s)
                up = chance >= 1 - (value * s - level)  # has the probability value * s - level
                xi.append((level + up) / s)
            rounded.append(norm * np.sign(v) * np.array(xi))
        x = x - _RATE * np.mean(rounded, axis=0)
        yield [x] * ranks


def power_sgd(ranks: int, rank: int) -> Steps:
    """Vogels et al. 2019, algorithms 1 and 2, without momentum."""
    x = start()
    memory = [np.zeros_like(x)] * ranks
    shapes = {0: (4, 27), 2: (8, 16)}  # all other parameters are vectors
    columns = sum(m for _, m in shapes.values())
    drawn = np.random.default_rng(tiny.SEED).standard_normal(columns * rank, dtype=np.float32)
    parts = np.split(drawn.astype(float), [27 * rank])
    q = {i: part.reshape(-1, rank) for i, part in zip(shapes, parts, strict=True)}
    for t in range(tiny.STEPS):
        delta = [of_layers(memory[k] + gradient(x, t, k)) for k in range(ranks)]
        kept = [of_layers(np.zeros_like(x)) for _ in range(ranks)]
        update = []
        for i in range(len(LAYERS)):
            if i not in shapes:
                update.append(np.mean([delta[k][i] for k in range(ranks)], axis=0))
                continue
            m = [delta[k][i].reshape(shapes[i]) for k in range(ranks)]
            p = orthogonalized(np.mean([m[k] @ q[i] for k in range(ranks)], axis=0))
            own = [m[k].T @ p for k in range(ranks)]
            for k in range(ranks):
                kept[k][i] = (m[k] - p @ own[k].T).flatten()
            q[i] = np.mean(own, axis=0)
            update.append((p @ q[i].T).flatten())
        memory = [np.concatenate(kept[k]) for k in range(ranks)]
        x = x - _RATE * np.concatenate(update)
        yield [x] * ranks


def orthogonalized(p: Vector) -> Vector:
    """Return orthonormal columns (Gram-Schmidt)."""
    p = p.copy()
    for i in range(p.shape[1]):
        for j in range(i):
            p[:, i] -= (p[:, j] @ p[:, i]) * p[:, j]
        p[:, i] /= np.linalg.norm(p[:, i])
    return p


ALGORITHMS: dict[str, Callable[[int], Steps]] = {
    "ddp": synchronous,
    "flat": synchronous,
    "per-layer": synchronous,
    "local-sgd": lambda n: local_sgd(n, 2),
    "post-local-sgd": lambda n: local_sgd(n, 3, first=tiny.EPOCH_STEPS),
    "ring": lambda n: d_psgd(n, "ring"),
    "complete": lambda n: d_psgd(n, "complete"),
    "choco, sign": lambda n: choco_sgd(n, "ring", sign, 0.4),
    "choco, topk": lambda n: choco_sgd(n, "complete", lambda v: top_k(v, 25), 0.3),
    "signsgd": lambda n: with_memory(n, lambda v, _: sign(v)),
    "topk": lambda n: with_memory(n, lambda v, _: top_k(v, 25)),
    "randomk": lambda n: with_memory(n, lambda v, t: rand_k(v, 25, t)),
    "qsgd": lambda n: qsgd(n, 4),
    "powersgd": lambda n: power_sgd(n, 1),
}
