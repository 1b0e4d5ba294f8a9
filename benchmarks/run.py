"""Measure, and print a line for each figure: ``make bench``, or a part by its name.

``python -m benchmarks.run post_rate read_rate`` runs two parts. Seven run only if named:
``cluster_start``, which needs a cluster, ``equal_runs``, ``faults`` and ``idle``, which take a
quarter of an hour each, ``pages``, which needs Chromium, ``loggers`` and ``rivals``, which install
what others use instead.
"""

import argparse
import importlib
import tempfile
from pathlib import Path

from benchmarks.measure import machine

_USUAL = (
    *("tracker_cost", "delivery_rate", "post_rate", "read_rate", "read_memory", "result_rate"),
    *("start_latency", "scrape_cost", "watching", "silence", "disturbance", "step_cost"),
    *("resnet_rate", "language_rate", "exchange_rate", "bandwidth_rate", "linear_rate", "deleting"),
)
_ALL = (*_USUAL, "cluster_start", "equal_runs", "faults", "idle", "loggers", "pages", "rivals")


def main() -> None:
    """Run the measurements one after the other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(_ALL)}")
    parts = parser.parse_args().parts or _USUAL
    if unknown := set(parts) - set(_ALL):
        parser.error(f"there is no part {', '.join(sorted(unknown))}: choose of {', '.join(_ALL)}")
    print(f"{machine()}; median (least to most)")
    for part in parts:
        module = importlib.import_module(f"benchmarks.{part}")
        with tempfile.TemporaryDirectory() as folder:
            for figure in module.measure(Path(folder)):
                print(figure, flush=True)


if __name__ == "__main__":
    main()
