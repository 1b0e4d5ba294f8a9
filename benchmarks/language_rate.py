"""Tokens a second of the language models: our loop, and the same model in plain PyTorch.

All loops train on the same random tokens.
"""

from functools import partial
from pathlib import Path

import torch
from torch.nn import functional

from benchmarks.loops import Loop, Loops, plain_training, rates, session, tracker_of_a_run
from benchmarks.measure import Figure, Ratio
from mlbench.benchmarks.tasks import GptOptions, LstmOptions
from mlbench_worker.tasks import gpt, lstm
from mlbench_worker.training.language import LanguageTrainer, Rows

_STEPS = 5
_VOCABULARY = 8481
_GPT_SHAPE, _LSTM_SHAPE = (32, 128), (20, 70)
_GPT_TOKENS, _LSTM_TOKENS = _STEPS * 32 * 128, _STEPS * 20 * 70


def measure(folder: Path) -> list[Figure | Ratio]:
    """Return tokens a second of every loop, and how they compare."""
    figures = rates(_LOOPS, "tokens/s", folder)
    gpt_plain, gpt_fp32, gpt_bf16, lstm_plain, lstm_fp32 = figures
    pairs = [(gpt_fp32, gpt_plain), (gpt_bf16, gpt_plain), (lstm_fp32, lstm_plain)]
    return [
        *figures,
        *(Ratio(f"{ours.name}, beside plain", ours.median / plain.median) for ours, plain in pairs),
    ]


def _batches(shape: tuple[int, int], vocabulary: int) -> list[Rows]:
    """Return a step's random tokens, for every step."""
    torch.manual_seed(0)
    return [Rows(torch.randint(vocabulary, shape), torch.randint(vocabulary, shape))] * _STEPS


def _our_gpt(options: GptOptions, folder: Path) -> Loop:
    """Make the task's loop, with all that a run records."""
    model, rank = gpt.make_model(256), session(options, tracker_of_a_run(folder))
    trainer = LanguageTrainer(rank, model, gpt.adamw(model), lambda step: 3e-3, options, 1.0)
    batches = _batches(_GPT_SHAPE, 256)
    return lambda: trainer.train(batches, _GPT_SHAPE[0]), _GPT_TOKENS


def _our_lstm(folder: Path) -> Loop:
    """Make the task's loop, with all that a run records."""
    options = LstmOptions()
    model = lstm.AwdLstm(_VOCABULARY, lstm.SIZES["small"])
    rank = session(options, tracker_of_a_run(folder))
    trainer = lstm.AwdTrainer(rank, model, _VOCABULARY, options)
    batches = _batches(_LSTM_SHAPE, _VOCABULARY)
    return lambda: trainer.train(batches, _LSTM_SHAPE[0]), _LSTM_TOKENS


def _plain_gpt(_: Path) -> Loop:
    model = gpt.make_model(256)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.99))

    def loss(rows: Rows) -> torch.Tensor:
        return functional.cross_entropy(model(rows.tokens).flatten(0, 1), rows.following.flatten())

    return plain_training(model, optimizer, _batches(_GPT_SHAPE, 256), loss, clip=1.0), _GPT_TOKENS


def _plain_lstm(_: Path) -> Loop:
    size, streams = lstm.SIZES["small"], _LSTM_SHAPE[0]
    model = lstm.AwdLstm(_VOCABULARY, size)
    optimizer = torch.optim.SGD(model.parameters(), lr=30.0, weight_decay=1.2e-6)
    generator, state = torch.Generator(), model.first_state(streams)

    def loss(rows: Rows) -> torch.Tensor:
        nonlocal state
        masks = lstm.Masks.draw(size, _VOCABULARY, streams, slice(streams), generator)
        logits, after, raw, output = model(rows.tokens.T, state, masks)
        state = tuple((hidden.detach(), memory.detach()) for hidden, memory in after)
        entropy = functional.cross_entropy(logits.flatten(0, 1), rows.following.T.flatten())
        penalty: torch.Tensor = 2 * output.square().mean() + raw.diff(dim=0).square().mean()
        return entropy + penalty

    batches = _batches(_LSTM_SHAPE, _VOCABULARY)
    return plain_training(model, optimizer, batches, loss, clip=0.25), _LSTM_TOKENS


_LOOPS: Loops = {
    "sotu-gpt, plain PyTorch": _plain_gpt,
    "sotu-gpt, our loop": partial(_our_gpt, GptOptions()),
    "sotu-gpt, our loop, bf16": partial(_our_gpt, GptOptions(precision="bf16")),
    "sotu-lstm, plain PyTorch": _plain_lstm,
    "sotu-lstm, our loop": _our_lstm,
}
