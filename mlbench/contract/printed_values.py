"""Patterns of values in lines that a program prints. ``--from-stdout`` shows and uses them."""

import re
from typing import Final

EXAMPLES: Final = (
    "epoch 3 loss 0.41 acc 0.87",
    "Test set: Average loss: 0.0523, Accuracy: 9832/10000 (98%)",
    "{'loss': 0.41, 'learning_rate': 1e-05, 'epoch': 0.5}",
    "40%|████      | 40/100 [00:05<00:07, 8.10it/s, loss=0.41, acc=0.87]",
)
WORDS: Final = (
    *("acc", "accuracy", "auc", "bleu", "epoch", "err", "error", "f1", "iter", "iteration"),
    *("loss", "lr", "mae", "mse", "perplexity", "ppl", "reward", "score", "step", "wer"),
)
"""A line has values only if a name contains such a word, so that other numbers do not count."""
PAIR: Final = re.compile(
    r"""(?<![^\s,;:|\[({])(?P<quote>['"]?)
    (?P<name>(?!(?:info|debug|warning)\s)[a-z][\w./-]*(?:[ ][a-z][\w./-]*){0,2})
    (?P=quote)(?:\s*[:=]\s*|\s+)
    (?P<value>[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+|nan|inf))(?:/(?P<total>\d+))?
    (?=\s*$|[\s,;|\])}%]|:\s|\.\s|[a-z]{1,3}\b)""",
    re.VERBOSE | re.IGNORECASE,
)
HELP: Final = (
    "Values are read from stdout and stderr: NAME NUMBER, NAME=NUMBER and NAME: NUMBER, in lines "
    f"where a name contains one of the words {', '.join(WORDS)}. For example:\n"
    + "\n".join(f"  {line}" for line in EXAMPLES)
)
