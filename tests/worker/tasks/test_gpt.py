"""The Transformer: formulas of its parts, and equal training on any number of workers."""

from pathlib import Path

import pytest
import torch

from mlbench.benchmarks.tasks import GptOptions
from mlbench.contract import names
from mlbench_worker.ranks.distributed import World
from mlbench_worker.tasks import gpt
from tests.support.ranks import run_ranks
from tests.support.texts import write_speeches

_TASK = ("-m", "mlbench_worker.tasks.gpt", "--epochs=1", "--batch-size=3", "--goal=1")


@pytest.mark.slow
def test_any_number_of_workers_trains_the_same_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_speeches(tmp_path)
    monkeypatch.setenv(names.ENV_DATASETS, str(tmp_path))
    [one], both = (run_ranks(tmp_path, size, *_TASK) for size in (1, 2))
    (perplexity,) = one.series(names.VAL_PERPLEXITY)
    assert perplexity < 15
    for rank in both:
        assert rank.series(names.VAL_PERPLEXITY) == pytest.approx([perplexity], rel=1e-3)
    assert [rank.series(names.SAMPLES)[-1] for rank in both] == [100 * 128, 100 * 2 * 128]
    assert one.stated("goal") == [
        {"metric": names.VAL_PERPLEXITY, "value": 1.0, "lower_is_better": True}
    ]


def test_a_token_attends_to_itself_and_earlier_tokens() -> None:
    torch.manual_seed(0)
    block = gpt.TransformerBlock(width=6, heads=2)
    x = torch.randn(1, 5, 6)
    query, key, value = block.attend(x)[0].split(6, dim=1)
    expected = torch.zeros(5, 6)
    for head in (slice(0, 3), slice(3, 6)):
        for place in range(5):
            fits = torch.stack([query[place, head] @ key[at, head] for at in range(place + 1)])
            shares = (fits / 3**0.5).softmax(dim=0)
            expected[place, head] = shares @ value[: place + 1, head]
    assert torch.allclose(block.attention(x)[0], expected, atol=1e-6)


def test_a_prediction_does_not_depend_on_later_tokens() -> None:
    torch.manual_seed(0)
    model = gpt.Gpt(vocabulary=9, context=6, layers=2, heads=2, width=8)
    tokens = torch.randint(9, (2, 6))
    changed = torch.cat([tokens[:, :3], torch.randint(9, (2, 3))], dim=1)
    assert torch.equal(model(tokens)[:, :3], model(changed)[:, :3])


def test_the_rate_rises_and_then_falls_as_a_cosine() -> None:
    rate = gpt.cosine(1.0, steps=1100)
    found = [rate(step) for step in (0, 99, 100, 600, 1100)]
    assert found == pytest.approx([0.01, 1.0, 1.0, 0.55, 0.1])


def test_ranks_share_the_rows_of_a_step() -> None:
    data, config = torch.arange(1000), GptOptions(batch_size=3, seed=7)
    whole = next(gpt.random_rows(data, config, World(), epoch=2))
    parts = [next(gpt.random_rows(data, config, World(rank, 2), epoch=2)) for rank in (0, 1)]
    assert torch.equal(torch.cat([part.tokens for part in parts]), whole.tokens)
    assert torch.equal(whole.following, whole.tokens + 1)


def test_a_fourth_of_the_rows_is_for_validation() -> None:
    rows = gpt.rows_to_validate(torch.arange(128 * 9 + 1))
    assert rows[:, 0].tolist() == [0, 4 * 128, 8 * 128]
    assert rows[2].tolist() == list(range(8 * 128, 9 * 128 + 1))
