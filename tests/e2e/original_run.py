"""Start a run of two workers with the original MLBench client, which finds the master itself.

Imports nothing of MLBench, because it runs with the Python interpreter of the original client.
Usage: original_run.py RELEASE IMAGE CORES
"""

import json
import sys

from mlbench_core.api import ApiClient


def main() -> None:
    """Start the run and print its record as JSON."""
    release, image, cores = sys.argv[1:]
    labels = f"component=master,app=mlbench,release={release}"
    client = ApiClient(in_cluster=False, label_selector=labels, k8s_namespace=release)
    answer = client.create_run(
        "original",
        2,
        num_cpus=float(cores),
        custom_image_name=image,
        custom_image_command="python3 -m mlbench_worker.tasks.steps --steps 100 --rate 50",
        backend="GLOO",
        run_all_nodes=True,
    ).result()
    answer.raise_for_status()
    print(json.dumps(answer.json()))


if __name__ == "__main__":
    main()
