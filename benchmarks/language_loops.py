"""Training loops of the language models, one for each process, on random tokens.

``python -m benchmarks.language_loops LOOP FOLDER`` trains a few steps for every line on standard
input, and prints the tokens a second.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_

from benchmarks.loops import answer, run_environ, void
from mlbench import Tracker
from mlbench.options import ModelOptions
from mlbench.tasks import GptOptions, LstmOptions
from mlbench_worker.ranks.distributed import World, set_up
from mlbench_worker.tasks import gpt, lstm
from mlbench_worker.training.language import LanguageTrainer, Rows
from mlbench_worker.training.session import Session

STEPS = 5
_VOCABULARY = 8481
_GPT_SHAPE, _LSTM_SHAPE = (32, 128), (20, 70)


def random_rows(shape: tuple[int, int], vocabulary: int) -> Rows:
    """Return rows of tokens that nobody wrote."""
    torch.manual_seed(0)
    return Rows(torch.randint(vocabulary, shape), torch.randint(vocabulary, shape))


def our_gpt(options: GptOptions, folder: Path) -> Callable[[], None]:
    """Return the task's loop, with all that a run records."""
    model = gpt.make_model(256)
    trainer = LanguageTrainer(
        _session(options, folder), model, gpt.adamw(model), lambda step: 3e-3, options, 1.0
    )
    batches = [random_rows(_GPT_SHAPE, 256)] * STEPS
    return lambda: void(trainer.train(batches, len(batches[0].tokens)))


def our_lstm(options: LstmOptions, folder: Path) -> Callable[[], None]:
    """Return the task's loop, with all that a run records."""
    model = lstm.AwdLstm(_VOCABULARY, lstm.SIZES["small"])
    trainer = lstm.AwdTrainer(_session(options, folder), model, _VOCABULARY, options)
    batches = [random_rows(_LSTM_SHAPE, _VOCABULARY)] * STEPS
    return lambda: void(trainer.train(batches, len(batches[0].tokens)))


def plain_gpt() -> Callable[[], None]:
    """Return the same training written down plainly in PyTorch."""
    model = gpt.make_model(256)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.99))
    rows = random_rows(_GPT_SHAPE, 256)

    def train() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad()
            logits = model(rows.tokens).flatten(0, 1)
            loss = functional.cross_entropy(logits, rows.following.flatten())
            loss.backward()  # type: ignore[no-untyped-call]  # PyTorch states no types
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            loss.item()

    return train


def plain_lstm() -> Callable[[], None]:
    """Return the same training written down plainly in PyTorch."""
    size, streams = lstm.SIZES["small"], _LSTM_SHAPE[0]
    model = lstm.AwdLstm(_VOCABULARY, size)
    optimizer = torch.optim.SGD(model.parameters(), lr=30.0, weight_decay=1.2e-6)
    rows, generator = random_rows(_LSTM_SHAPE, _VOCABULARY), torch.Generator()

    def train() -> None:
        state = model.first_state(streams)
        for _ in range(STEPS):
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

    return train


def _session(options: ModelOptions, folder: Path) -> Session:
    world = World()
    return Session(world, Tracker(run_environ(folder)), set_up(options, world))


def main() -> None:
    """Answer each line with a speed."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    loops: dict[str, tuple[Callable[[], Callable[[], None]], tuple[int, int]]] = {
        "gpt": (lambda: our_gpt(GptOptions(), folder), _GPT_SHAPE),
        "gpt, bf16": (lambda: our_gpt(GptOptions(precision="bf16"), folder), _GPT_SHAPE),
        "gpt, plain": (plain_gpt, _GPT_SHAPE),
        "lstm": (lambda: our_lstm(LstmOptions(), folder), _LSTM_SHAPE),
        "lstm, plain": (plain_lstm, _LSTM_SHAPE),
    }
    make, (rows, time) = loops[name]
    answer(make(), STEPS * rows * time)


if __name__ == "__main__":
    main()
