"""The AWD-LSTM: its parts match the paper, and any number of workers trains the same model."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from mlbench.benchmarks.options import read
from mlbench.benchmarks.tasks import LstmOptions, WikiText2Options
from mlbench.contract import names
from mlbench_worker.ranks.distributed import World
from mlbench_worker.tasks.lstm import SIZES, AwdLstm, Masks, Size, blocks, random_lengths, rows_of
from tests.support.ranks import run_ranks
from tests.support.texts import write_speeches

_TASK = ("-m", "mlbench_worker.tasks.lstm", "--batch-size=3", "--goal=1", "--learning-rate=3")
_SIZE = Size(2, 6, 4, 0.2, 0.3, 0.4, 0.5, 0.6, least_count=1)
_VOCABULARY, _ROWS, _TIME = 9, 3, 5


def draw(size: Size, share: slice = slice(_ROWS)) -> Masks:
    return Masks.draw(size, _VOCABULARY, _ROWS, share, torch.Generator().manual_seed(1))


@pytest.fixture
def model() -> AwdLstm:
    torch.manual_seed(0)
    return AwdLstm(_VOCABULARY, _SIZE)


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.randint(_VOCABULARY, (_TIME, _ROWS), generator=torch.Generator().manual_seed(0))


@pytest.mark.slow
def test_the_model_does_not_depend_on_workers_or_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_speeches(tmp_path, words=4000)
    monkeypatch.setenv(names.ENV_DATASETS, str(tmp_path))
    [alone] = run_ranks(tmp_path, 1, *_TASK, "--epochs=3")
    both = run_ranks(tmp_path, 2, *_TASK, "--epochs=3")
    perplexities = alone.series(names.VAL_PERPLEXITY)
    assert perplexities[-1] < perplexities[0] < 20
    for rank in both:
        assert rank.series(names.VAL_PERPLEXITY) == pytest.approx(perplexities, rel=1e-3)
    monkeypatch.setenv(names.ENV_CHECKPOINTS, str(tmp_path / "checkpoints"))
    (tmp_path / "again").mkdir()
    run_ranks(tmp_path / "again", 1, *_TASK, "--epochs=1")
    # This run resumes from the checkpoint of the run above.
    [again] = run_ranks(tmp_path / "again", 1, *_TASK, "--epochs=3")
    assert again.series(names.VAL_PERPLEXITY)[-1] == perplexities[-1]


def test_without_dropout_it_equals_pytorchs_lstm(model: AwdLstm, tokens: torch.Tensor) -> None:
    nothing = Size(2, 6, 4, 0.0, 0.0, 0.0, 0.0, 0.0, least_count=1)
    x: torch.Tensor = model.embedding(tokens)
    for layer in model.layers:
        x, _ = layer(x)
    expected = x @ model.embedding.weight.T + model.bias
    for masks in (None, draw(nothing)):
        logits, *_, raw, output = model(tokens, model.first_state(_ROWS), masks)
        assert torch.allclose(logits, expected, atol=1e-6)
        assert torch.equal(raw, output)


def test_it_drops_words_rows_and_recurrent_weights(model: AwdLstm, tokens: torch.Tensor) -> None:
    masks = draw(_SIZE)
    x = model.embedding.weight[tokens] * masks.words[tokens]
    for number, layer in enumerate(model.layers):
        dropped = nn.LSTM(layer.input_size, layer.hidden_size)
        dropped.load_state_dict(layer.state_dict())
        dropped.get_parameter("weight_hh_l0").data *= masks.weights[number]
        x, _ = dropped(x * masks.between[number])
    logits, _, raw, output = model(tokens, model.first_state(_ROWS), masks)
    assert torch.allclose(raw, x, atol=1e-6)
    assert torch.equal(output, raw * masks.between[-1])
    assert torch.allclose(logits, output @ model.embedding.weight.T + model.bias)


def test_masks_preserve_the_mean_and_do_not_depend_on_the_ranks() -> None:
    size = replace(_SIZE, hidden=200)
    masks = draw(size)
    for mask, rate in [(masks.weights[0], 0.6), (masks.between[1], 0.4)]:
        dropped, kept = sorted(set(mask.flatten().tolist()))
        assert (dropped, kept) == (0.0, pytest.approx(1 / (1 - rate)))
    assert masks.weights[0].mean().item() == pytest.approx(1, abs=0.02)
    parts = [draw(size, share) for share in (slice(0, 1), slice(1, 3))]
    for whole, *shares in zip(masks.between, *(part.between for part in parts), strict=True):
        assert torch.equal(torch.cat(shares, dim=1), whole)
    assert torch.equal(parts[0].weights[1], parts[1].weights[1])


def test_a_text_is_cut_into_rows_and_read_in_order() -> None:
    parts = [rows_of(torch.arange(17), 3, World(rank, 2)) for rank in (0, 1)]
    rows = torch.cat(parts)
    assert rows.tolist() == [list(range(5 * row, 5 * row + 5)) for row in range(3)]
    found = list(blocks(rows, itertools.repeat(3)))
    assert [one.tokens[0].tolist() for one in found] == [[0, 1, 2], [3]]
    assert all(torch.equal(one.following, one.tokens + 1) for one in found)


def test_sequences_have_about_70_tokens_and_rarely_35() -> None:
    lengths = list(itertools.islice(random_lengths(seed=3, epoch=1), 4000))
    short = [length for length in lengths if length < 52]
    assert len(short) / len(lengths) == pytest.approx(0.05, abs=0.02)
    assert sum(short) / len(short) == pytest.approx(35, abs=2)
    assert lengths[:9] == list(itertools.islice(random_lengths(seed=3, epoch=1), 9))


def test_the_full_model_has_the_size_of_the_paper() -> None:
    model = AwdLstm(33_278, SIZES["full"])
    assert sum(parameter.numel() for parameter in model.parameters()) == 33_556_078


def test_the_size_sets_the_goal_and_the_defaults_of_training() -> None:
    assert read(LstmOptions, {}) == LstmOptions()
    full = read(LstmOptions, {"size": "full", "epochs": "3"})
    assert (full.goal, full.batch_size, full.epochs) == (70.0, 80, 3)
    assert read(WikiText2Options, {"size": "small"}).goal == LstmOptions().goal
