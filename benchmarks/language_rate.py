"""Tokens a second of the language models: our loop, and the same model in plain PyTorch.

All loops train on the same random tokens.
"""

from functools import partial
from pathlib import Path

import torch
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_

from benchmarks.loops import Loop, Loops, rates, run_environ
from benchmarks.measure import Figure, Ratio
from mlbench import Tracker
from mlbench.options import ModelOptions
from mlbench.tasks import GptOptions, LstmOptions
from mlbench_worker.ranks.distributed import World, set_up
from mlbench_worker.tasks import gpt, lstm
from mlbench_worker.training.language import LanguageTrainer, Rows
from mlbench_worker.training.session import Session

_STEPS = 5
_VOCABULARY = 8481
_GPT_SHAPE, _LSTM_SHAPE = (32, 128), (20, 70)
_GPT_TOKENS, _LSTM_TOKENS = _STEPS * 32 * 128, _STEPS * 20 * 70


def measure(folder: Path) -> list[Figure | Ratio]:
    """Return tokens a second of every loop, and how they compare."""
    figures = rates(__name__, LOOPS, "tokens/s", folder)
    gpt_plain, gpt_fp32, gpt_bf16, lstm_plain, lstm_fp32 = figures
    pairs = [(gpt_fp32, gpt_plain), (gpt_bf16, gpt_plain), (lstm_fp32, lstm_plain)]
    return [
        *figures,
        *(Ratio(f"{ours.what}, beside plain", ours.median / plain.median) for ours, plain in pairs),
    ]


def _random_rows(shape: tuple[int, int], vocabulary: int) -> Rows:
    torch.manual_seed(0)
    return Rows(torch.randint(vocabulary, shape), torch.randint(vocabulary, shape))


def _our_gpt(options: GptOptions, folder: Path) -> Loop:
    """Make the task's loop, with all that a run records."""
    model = gpt.make_model(256)
    trainer = LanguageTrainer(
        _session(options, folder), model, gpt.adamw(model), lambda step: 3e-3, options, 1.0
    )
    batches = [_random_rows(_GPT_SHAPE, 256)] * _STEPS
    return lambda: trainer.train(batches, _GPT_SHAPE[0]), _GPT_TOKENS


def _our_lstm(folder: Path) -> Loop:
    """Make the task's loop, with all that a run records."""
    options = LstmOptions()
    model = lstm.AwdLstm(_VOCABULARY, lstm.SIZES["small"])
    trainer = lstm.AwdTrainer(_session(options, folder), model, _VOCABULARY, options)
    batches = [_random_rows(_LSTM_SHAPE, _VOCABULARY)] * _STEPS
    return lambda: trainer.train(batches, _LSTM_SHAPE[0]), _LSTM_TOKENS


def _plain_gpt(_: Path) -> Loop:
    """Make the same training, written down plainly in PyTorch."""
    model = gpt.make_model(256)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.99))
    rows = _random_rows(_GPT_SHAPE, 256)

    def train() -> None:
        for _ in range(_STEPS):
            optimizer.zero_grad()
            logits = model(rows.tokens).flatten(0, 1)
            loss = functional.cross_entropy(logits, rows.following.flatten())
            loss.backward()  # type: ignore[no-untyped-call]  # PyTorch states no types
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            loss.item()

    return train, _GPT_TOKENS


def _plain_lstm(_: Path) -> Loop:
    """Make the same training, written down plainly in PyTorch."""
    size, streams = lstm.SIZES["small"], _LSTM_SHAPE[0]
    model = lstm.AwdLstm(_VOCABULARY, size)
    optimizer = torch.optim.SGD(model.parameters(), lr=30.0, weight_decay=1.2e-6)
    rows, generator = _random_rows(_LSTM_SHAPE, _VOCABULARY), torch.Generator()

    def train() -> None:
        state = model.first_state(streams)
        for _ in range(_STEPS):
            masks = lstm.Masks.draw(size, _VOCABULARY, streams, slice(streams), generator)
            optimizer.zero_grad()
            logits, after, raw, output = model(rows.tokens.T, state, masks)
            state = tuple((hidden.detach(), memory.detach()) for hidden, memory in after)
            loss = functional.cross_entropy(logits.flatten(0, 1), rows.following.T.flatten())
            penalty = 2 * output.square().mean() + raw.diff(dim=0).square().mean()
            (loss + penalty).backward()
            clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
            loss.item()

    return train, _LSTM_TOKENS


def _session(options: ModelOptions, folder: Path) -> Session:
    world = World()
    return Session(world, Tracker(run_environ(folder)), set_up(options, world))


LOOPS: Loops = {
    "sotu-gpt, plain PyTorch": _plain_gpt,
    "sotu-gpt, our loop": partial(_our_gpt, GptOptions()),
    "sotu-gpt, our loop, bf16": partial(_our_gpt, GptOptions(precision="bf16")),
    "sotu-lstm, plain PyTorch": _plain_lstm,
    "sotu-lstm, our loop": _our_lstm,
}
