"""Titles of metrics for people, on web pages, dashboards, in reports and in terminals.

The raw name stays next to a title, as a tooltip for example, because queries use it. The web pages
have the same words in ``js/format.js``; both are tested with one list of examples.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mlbench.contract import names

_STAGES: Final[Mapping[str, str]] = {
    "train": "Training",
    "training": "Training",
    "val": "Validation",
    "val_global": "Validation",
    "valid": "Validation",
    "validation": "Validation",
    "eval": "Validation",
    "test": "Test",
}
_QUANTITIES: Final[Mapping[str, str]] = {
    "loss": "loss",
    "acc": "accuracy",
    "accuracy": "accuracy",
    "Prec@1": "accuracy",
    "Prec@5": "top-5 accuracy",
    "R2": "R²",
    "perplexity": "perplexity",
    "Perplexity": "perplexity",
}

METRIC_TITLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{
            f"{stage}{separator}{quantity}": f"{stage_title} {title}"
            for stage, stage_title in _STAGES.items()
            for separator in "_/-"
            for quantity, title in _QUANTITIES.items()
        },
        **{quantity: title[0].upper() + title[1:] for quantity, title in _QUANTITIES.items()},
        names.LEARNING_RATE: "Learning rate",
        names.EPOCH: "Epoch",
        names.STEP: "Step",
        names.SAMPLES: "Samples",
        names.TRAIN_SECONDS: "Training time",
        names.BYTES_PER_STEP: "Bytes sent per step",
    }
)
"""Titles by the names under which benchmarks and common libraries record metrics."""


def metric_title(name: str) -> str:
    """Return the title of a metric, such as ``Validation accuracy``; its name if it has none."""
    return METRIC_TITLES.get(name, name)
