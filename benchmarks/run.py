"""Measure, and print a line for each figure: ``make bench``, or a part by its name.

``python -m benchmarks.run post_rate read_rate`` runs two parts. Some parts run only if named:

- They need other programs: ``cluster_start`` a cluster, ``listing`` PostgreSQL, ``pages`` and
  ``dragging`` Chromium. ``loggers`` and ``rivals`` install other trackers.
- They take five minutes: ``planted_causes``, ``predicted_changes``.
- They take a quarter or half an hour: ``diagnoses``, ``diagnoses_cost``, ``equal_runs``,
  ``failures``, ``faults``, ``idle``, ``resumed``, ``thousand`` (which uses both cores),
  ``watched_training``.
- ``year`` writes a quarter of a gigabyte.
"""

import argparse
import pkgutil
import tempfile
from pathlib import Path

from benchmarks.measure import machine

_USUAL = (
    *("tracker_cost", "recorded_cost", "join_rate", "commands", "recording_rate", "post_rate"),
    *("read_rate", "read_memory", "result_rate", "opened", "start_latency", "scrape_cost"),
    *("watching", "silence", "interference", "step_cost", "resnet_rate", "exchange_rate"),
    *("language_rate", "bandwidth_rate", "linear_rate", "deleting"),
)
_IF_NAMED = (
    *("diagnoses", "diagnoses_cost", "cluster_start", "dragging", "equal_runs", "failures"),
    *("faults", "idle", "listing", "loggers", "pages", "planted_causes", "resumed", "rivals"),
    *("predicted_changes", "thousand", "watched_training", "year"),
)
# The function of a part; of the others it is ``measure`` in the module of their name.
_FUNCTIONS = {
    "diagnoses_cost": "diagnoses.cost.measure",
    "cluster_start": "starting.cluster_start",
    "deleting": "silence.deleting",
    "recording_rate": "api.recording_rate",
    "exchange_rate": "images.exchange_rate",
    "join_rate": "recorded_cost.join_rate",
    "post_rate": "api.post_rate",
    "read_memory": "api.read_memory",
    "read_rate": "api.read_rate",
    "resnet_rate": "images.resnet_rate",
    "result_rate": "api.result_rate",
    "silence": "silence.silence",
    "start_latency": "starting.start_latency",
    "step_cost": "images.step_cost",
}


def main() -> None:
    """Run the measurements one after the other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    choices = ", ".join((*_USUAL, *_IF_NAMED))
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {choices}")
    parts = parser.parse_args().parts or _USUAL
    if unknown := ", ".join(sorted({*parts}.difference(_USUAL, _IF_NAMED))):
        parser.error(f"there is no part {unknown}: choose of {choices}")
    print(f"{machine()}; median (least to most)")
    for part in parts:
        measure = pkgutil.resolve_name(f"benchmarks.{_FUNCTIONS.get(part, f'{part}.measure')}")
        with tempfile.TemporaryDirectory() as folder:
            for figure in measure(Path(folder)):
                print(figure, flush=True)


if __name__ == "__main__":
    main()
