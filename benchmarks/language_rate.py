"""Tokens a second of the language models: our loop, and the same model in plain PyTorch."""

from contextlib import ExitStack
from pathlib import Path

from benchmarks.loops import loop
from benchmarks.measure import Figure, Ratio, alternate

_ROUNDS = 7
_MODULE = "benchmarks.language_loops"
_LOOPS = {
    "gpt": "sotu-gpt, our loop",
    "gpt, plain": "sotu-gpt, plain PyTorch",
    "gpt, bf16": "sotu-gpt, our loop, bf16",
    "lstm": "sotu-lstm, our loop",
    "lstm, plain": "sotu-lstm, plain PyTorch",
}


def measure(folder: Path) -> list[Figure | Ratio]:
    """Return tokens a second of every loop, taken in turn, and how they compare."""
    with ExitStack() as stack:
        loops = [
            (what, "tokens/s", stack.enter_context(loop(_MODULE, name, folder)))
            for name, what in _LOOPS.items()
        ]
        gpt, gpt_plain, gpt_bf16, lstm, lstm_plain = figures = alternate(_ROUNDS, loops)
    return [
        *figures,
        *(
            Ratio(f"{one.what}, beside plain PyTorch", one.median / plain.median)
            for one, plain in [(gpt, gpt_plain), (gpt_bf16, gpt_plain), (lstm, lstm_plain)]
        ),
    ]
