"""Measure everything, and print a line for each figure: ``make bench``."""

import tempfile
from pathlib import Path

from benchmarks import delivery_rate, start_latency, tracker_cost
from benchmarks.measure import machine


def main() -> None:
    """Run the measurements one after the other."""
    print(f"{machine()}; median (least to most)")
    for part in (tracker_cost, delivery_rate, start_latency):
        with tempfile.TemporaryDirectory() as folder:
            for figure in part.measure(Path(folder)):
                print(figure, flush=True)


if __name__ == "__main__":
    main()
