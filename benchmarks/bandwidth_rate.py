"""How long messages take in a limited bandwidth, by how long their size says that they take."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import bandwidth_messages
from benchmarks.bandwidth_messages import SIZES, WAYS
from benchmarks.measure import Ratio
from benchmarks.stacks import local_stack, run_to_end
from mlbench import ApiClient

_MBIT = (5, 20, 80, 320)


def measure(folder: Path) -> Iterator[Ratio]:
    """Yield for each bandwidth, way and size the time by size / bandwidth + latency."""
    with local_stack(folder) as (_, client):
        for mbit in _MBIT:
            seconds = _message_seconds(client, mbit)
            for way in WAYS:
                latency = seconds[f"{way} 1"]
                for size in SIZES[1:]:
                    if (took := seconds.get(f"{way} {size}")) is not None:
                        what = f"{mbit} Mbit/s, {way}, {size:,} bytes: {took * 1e3:.2f} ms"
                        yield Ratio(what, took / (size * 8e-6 / mbit + latency))


def _message_seconds(client: ApiClient, mbit: int) -> dict[str, float]:
    """Return what rank 0 measured, by way and size."""
    program = Path(bandwidth_messages.__file__)
    command = shlex.join(["env", f"BENCH_MBIT={mbit}", sys.executable, str(program)])
    run = run_to_end(client, 2, command=command, look_seconds=1.0, max_bandwidth=mbit)
    series = client.get_run_metrics(run.id).result().value
    of_rank_0 = {name for name in series if name.endswith(" @ 0")}
    return {name.removesuffix(" @ 0"): series[name][0].number for name in of_rank_0}
