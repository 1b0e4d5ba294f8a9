"""How long a run takes to its first step in a cluster, on warm pods and on pods of another shape.

Measures the master at ``$MLBENCH_URL``, with the token ``$MLBENCH_TOKEN``. Nothing else may use it.
"""

import os
from itertools import cycle
from itertools import repeat as repeat_for_ever
from pathlib import Path

from benchmarks.measure import Figure, repeat
from benchmarks.start_latency import to_first_step
from mlbench import ApiClient, names

_STEPS = {"steps": "20", "rate": "1000"}
# Two workers of this must fit.
_CORES = (0.2, 0.25)


def measure(folder: Path) -> list[Figure]:
    """Return seconds; ``folder`` is not needed."""
    url, token = os.environ[names.ENV_URL], os.environ[names.ENV_TOKEN]
    with ApiClient(url=url, token=token) as client:
        warm = to_first_step(client, "steps", _STEPS, repeat_for_ever(_CORES[0]))
        changed = to_first_step(client, "steps", _STEPS, cycle(reversed(_CORES)))
        what = "POST /api/runs/ to the first step in a cluster"
        return [
            repeat(f"{what}: warm pods", "s", 5, warm),
            repeat(f"{what}: pods of another shape", "s", 5, changed),
        ]
