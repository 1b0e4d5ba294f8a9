"""How long messages take in a limited bandwidth, by how long their size says that they take."""

import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import bandwidth_messages
from benchmarks.bandwidth_messages import SIZES, WAYS
from benchmarks.measure import Ratio
from mlbench import ApiClient
from mlbench.home import Home
from mlbench.records import Run
from mlbench.stack import launch

_MBIT = (5, 20, 80, 320)


def measure(folder: Path) -> Iterator[Ratio]:
    """Yield for each bandwidth, way and size the time by size / bandwidth + latency."""
    home = Home(folder / "home")
    launch.start_detached(home, workers=2, port=None)
    try:
        with ApiClient.from_home(home) as client:
            for mbit in _MBIT:
                run = _run(client, mbit)
                series = client.get_run_metrics(run.id).result().value
                seconds = {
                    name.removesuffix(" @ 0"): points[0].number
                    for name, points in series.items()
                    if name.endswith(" @ 0")
                }
                for way in WAYS:
                    latency = seconds[f"{way} 1"]
                    for size in SIZES[1:]:
                        if (took := seconds.get(f"{way} {size}")) is not None:
                            due = size * 8e-6 / mbit + latency
                            what = f"{mbit} Mbit/s, {way}, {size:,} bytes: {took * 1e3:.2f} ms"
                            yield Ratio(what, took / due)
    finally:
        launch.stop(home)


def _run(client: ApiClient, mbit: int) -> Run:
    program = Path(bandwidth_messages.__file__)
    command = shlex.join(["env", f"BENCH_MBIT={mbit}", sys.executable, str(program)])
    ordered = client.create_run(
        f"messages at {mbit} Mbit/s",
        2,
        num_cpus=None,
        max_bandwidth=mbit,
        custom_image_name="none/needed",
        custom_image_command=command,
    )
    run = ordered.result().value
    while run.active:
        time.sleep(1.0)
        run = client.get_run(run.id).result().value
    assert run.state == "FINISHED", run.reason
    return run
