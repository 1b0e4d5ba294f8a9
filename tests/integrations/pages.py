"""The scripts of the pages in docs/integrations, and what was recorded of them."""

import re
from datetime import datetime
from pathlib import Path

from mlbench import ApiClient
from mlbench.records import Run

_PAGES = Path(__file__).parents[2] / "docs/integrations"


def script_of(page: str) -> str:
    """Return the script of a page, which has one."""
    text = (_PAGES / f"{page}.md").read_text()
    [script] = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return str(script)


def values(client: ApiClient, run: Run, metric: str, rank: int) -> list[tuple[int, float]]:
    """Return what can be read of a rank's metric so far: times in Unix µs, and values."""
    series = client.get_run_metrics(run.id, metric_filter=metric).result().value
    return [
        (round(datetime.fromisoformat(point.date).timestamp() * 1e6), point.number)
        for point in series.get(f"{metric} @ {rank}", [])
    ]
