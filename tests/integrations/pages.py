"""The scripts that the pages in docs/integrations show, and what was recorded of them."""

from datetime import datetime
from pathlib import Path

from mlbench import ApiClient
from mlbench.records import Run

_EXAMPLES = Path(__file__).parents[2] / "examples"


def script_of(page: str) -> str:
    """Return the script that a page shows."""
    return (_EXAMPLES / page / "train.py").read_text()


def values(client: ApiClient, run: Run, metric: str, rank: int) -> list[tuple[int, float]]:
    """Return what can be read of a rank's metric so far: times in Unix µs, and values."""
    series = client.get_run_metrics(run.id, metric_filter=metric).result().value
    return [
        (round(datetime.fromisoformat(point.date).timestamp() * 1e6), point.number)
        for point in series.get(f"{metric} @ {rank}", [])
    ]
