"""Each algorithm follows its paper step by step, sends the documented bytes, and can be resumed."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from tests.support.ranks import finish, start_ranks
from tests.worker.training.exchange import papers, tiny

_HAVE_OWN_WEIGHTS = {
    "local-sgd",
    "post-local-sgd",
    "ring",
    "complete",
    "choco, sign",
    "choco, topk",
}


@dataclass(frozen=True)
class Group:
    """Ranks that have trained with all algorithms."""

    size: int
    ranks: list[dict[str, tiny.Trained]]

    def of(self, algorithm: str) -> list[tiny.Trained]:
        """Return each rank's training with an algorithm."""
        return [rank[algorithm] for rank in self.ranks]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Use a single thread: more threads do not speed up tiny sums."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(
    scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)], ids="{} ranks".format
)
def group(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Group:
    command = ("-m", "tests.worker.training.exchange.tiny")
    outputs = finish(start_ranks(tmp_path_factory.mktemp("ranks"), request.param, *command))
    ranks = [
        {name: tiny.Trained(**fields) for name, fields in json.loads(output).items()}
        for output in outputs
    ]
    return Group(request.param, ranks)


@pytest.mark.parametrize("algorithm", papers.ALGORITHMS)
def test_weights_match_the_paper_after_each_step(group: Group, algorithm: str) -> None:
    found = group.of(algorithm)
    for step, expected in enumerate(papers.ALGORITHMS[algorithm](group.size)):
        for rank in range(group.size):
            weights = found[rank].weights[step]
            np.testing.assert_allclose(weights, expected[rank], rtol=0, atol=1e-6)


@pytest.mark.parametrize(("algorithm", "most"), [("ddp, fp16", 1e-3), ("ddp, bf16", 1e-2)])
def test_rounded_gradients_cause_a_small_error(group: Group, algorithm: str, most: float) -> None:
    *_, (expected, *_) = papers.synchronous(group.size)
    off = np.abs(np.array(group.of(algorithm)[0].weights[-1]) - expected).max()
    assert 1e-6 < off < most


@pytest.mark.parametrize("algorithm", tiny.ALGORITHMS)
def test_all_ranks_evaluate_the_mean_of_the_weights(group: Group, algorithm: str) -> None:
    found = group.of(algorithm)
    last = [one.weights[-1] for one in found]
    assert all(one.mean == found[0].mean for one in found), "the means differ between ranks"
    if algorithm in _HAVE_OWN_WEIGHTS:
        np.testing.assert_allclose(found[0].mean, np.mean(last, axis=0), rtol=0, atol=1e-7)
    else:
        assert all(weights == found[0].mean for weights in last), "the weights differ from the mean"


@pytest.mark.parametrize("algorithm", tiny.ALGORITHMS)
def test_a_resumed_training_equals_an_undisturbed_one(group: Group, algorithm: str) -> None:
    assert all(one.resumed_alike for one in group.of(algorithm))


@pytest.mark.parametrize("algorithm", tiny.ALGORITHMS)
def test_all_ranks_start_at_the_mean_if_one_lost_its_checkpoint(
    group: Group, algorithm: str
) -> None:
    found = group.of(algorithm)
    assert all(one.after_loss == found[0].after_loss for one in found), (
        "the weights differ between ranks"
    )
    saved = np.mean([one.weights[tiny.STEPS // 2 - 1] for one in found], axis=0)
    np.testing.assert_allclose(found[0].after_loss, saved, rtol=0, atol=1e-7)


# Bytes by the number of ranks, for 248 weights in 4 layers, or for a tenth of the weights.
_BYTES = {
    "ddp": {2: 992, 4: 1488},  # 2 (n - 1) / n of 4 bytes
    "ddp, bf16": {2: 496, 4: 744},
    "flat": {2: 992, 4: 1488},
    "per-layer": {2: 992, 4: 1488},
    "ring": {2: 992, 4: 2 * 992},
    "complete": {2: 992, 4: 1488},
    "choco, sign": {2: 16 + 31, 4: 2 * (16 + 31)},  # one scale per layer, and 248 bits
    "choco, topk": {2: 200, 4: 3 * 200},  # 25 values with their indices
    "signsgd": {2: 16 + 31, 4: 3 * (16 + 31)},
    "topk": {2: 200, 4: 3 * 200},
    "randomk": {2: 100, 4: 150},  # values without indices
    "qsgd": {2: 4 + 124, 4: 3 * (4 + 124)},
    "powersgd": {2: 4 * (31 + 24 + 12), 4: 6 * (31 + 24 + 12)},  # P, Q and biases
}


@pytest.mark.parametrize("algorithm", _BYTES)
def test_each_step_sends_the_documented_bytes(group: Group, algorithm: str) -> None:
    for one in group.of(algorithm):
        assert one.bytes_sent == [_BYTES[algorithm][group.size]] * tiny.STEPS


def test_local_steps_send_nothing(group: Group) -> None:
    mean = _BYTES["flat"][group.size]
    assert group.of("local-sgd")[0].bytes_sent == [0, mean] * 3
    assert group.of("post-local-sgd")[0].bytes_sent == [mean, mean, 0, 0, mean, 0]
