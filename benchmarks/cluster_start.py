"""How long a run takes to its first step in a cluster, on warm pods and on pods of another shape.

Measures the master at ``$MLBENCH_URL``, with the token ``$MLBENCH_TOKEN``. Nothing else may use it.
"""

import os
from collections.abc import Iterator
from itertools import cycle, repeat
from pathlib import Path

from benchmarks.measure import Figure, alternate
from benchmarks.start_latency import STEPS, to_first_step
from mlbench import ApiClient, names

# Two workers of this must fit.
_CORES = (0.2, 0.25)


def measure(folder: Path) -> Iterator[Figure]:
    """Yield seconds; ``folder`` is not needed."""
    url, token = os.environ[names.ENV_URL], os.environ[names.ENV_TOKEN]
    with ApiClient(url=url, token=token) as client:
        for pods, cores in (
            ("warm pods", repeat(_CORES[0])),
            ("pods of another shape", cycle(reversed(_CORES))),
        ):
            what = f"POST /api/runs/ to the first step in a cluster: {pods}"
            yield from alternate(5, "s", {what: to_first_step(client, "steps", STEPS, cores)})
