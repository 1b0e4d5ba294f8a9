"""Measure, and print a line for each figure: ``make bench``, or a part by its name.

``python -m benchmarks.run post_rate read_rate`` runs two parts. Sixteen run only if named:
``cluster_start``, which needs a cluster, ``autopsies``, ``autopsies_cost``, ``equal_runs``,
``failures``, ``faults``, ``idle`` and ``resumed``, which take a quarter or half an hour each,
``listing``, which needs PostgreSQL, ``pages`` and ``dragging``, which need Chromium, ``loggers``
and ``rivals``, which install what others use instead, ``thousand``, which takes a quarter of an
hour and both cores, and ``year``, which writes a quarter of a gigabyte.
"""

import argparse
import pkgutil
import tempfile
from pathlib import Path

from benchmarks.measure import machine

_USUAL = {
    "tracker_cost": "tracker_cost.measure",
    "recorded_cost": "recorded_cost.measure",
    "join_rate": "recorded_cost.join_rate",
    "commands": "commands.measure",
    "delivery_rate": "api.delivery_rate",
    "post_rate": "api.post_rate",
    "read_rate": "api.read_rate",
    "read_memory": "api.read_memory",
    "result_rate": "api.result_rate",
    "opened": "opened.measure",
    "start_latency": "starting.start_latency",
    "scrape_cost": "scrape_cost.measure",
    "watching": "watching.measure",
    "silence": "silence.silence",
    "disturbance": "disturbance.measure",
    "step_cost": "images.step_cost",
    "resnet_rate": "images.resnet_rate",
    "exchange_rate": "images.exchange_rate",
    "language_rate": "language_rate.measure",
    "bandwidth_rate": "bandwidth_rate.measure",
    "linear_rate": "linear_rate.measure",
    "deleting": "silence.deleting",
}
_IF_NAMED = {
    "autopsies": "autopsies.measure",
    "autopsies_cost": "autopsies.cost.measure",
    "cluster_start": "starting.cluster_start",
    "dragging": "dragging.measure",
    "equal_runs": "equal_runs.measure",
    "failures": "failures.measure",
    "faults": "faults.measure",
    "idle": "idle.measure",
    "listing": "listing.measure",
    "loggers": "loggers.measure",
    "pages": "pages.measure",
    "resumed": "resumed.measure",
    "rivals": "rivals.measure",
    "thousand": "thousand.measure",
    "year": "year.measure",
}
_FUNCTIONS = _USUAL | _IF_NAMED


def main() -> None:
    """Run the measurements one after the other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(_FUNCTIONS)}")
    parts = parser.parse_args().parts or _USUAL
    if unknown := ", ".join(sorted({*parts} - _FUNCTIONS.keys())):
        parser.error(f"there is no part {unknown}: choose of {', '.join(_FUNCTIONS)}")
    print(f"{machine()}; median (least to most)")
    for part in parts:
        measure = pkgutil.resolve_name(f"benchmarks.{_FUNCTIONS[part]}")
        with tempfile.TemporaryDirectory() as folder:
            for figure in measure(Path(folder)):
                print(figure, flush=True)


if __name__ == "__main__":
    main()
