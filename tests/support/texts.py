"""Small texts in the data sets' formats."""

import json
import random
from pathlib import Path

_WORDS = ("the", "people", "of", "this", "great", "nation", "keep", "law", "and", "order", ".")


def write_addresses(datasets: Path, texts: dict[int, str]) -> None:
    """Write one address per year, in the layout of the npm package."""
    (datasets / "sotu").mkdir(parents=True, exist_ok=True)
    for year, text in texts.items():
        content = {"year": year, "name": "A President", "party": "none", "text": text}
        (datasets / "sotu" / f"{year}_a_president_n.json").write_text(json.dumps(content))


def write_speeches(datasets: Path, words: int = 1000) -> None:
    """Write addresses of twelve years that contain a learnable pattern."""
    draw = random.Random(0)  # noqa: S311
    write_addresses(
        datasets,
        {year: " ".join(draw.choices(_WORDS, k=words // 12)) for year in range(1790, 1802)},
    )
