"""Find the master as MLBench's original client does, and order a run of two workers with it.

This runs with the Python that has that client, and so imports nothing of ours.
usage: original_run.py RELEASE IMAGE CORES
"""

import json
import sys

from mlbench_core.api import ApiClient


def main() -> None:
    """Print the run that was ordered, as JSON."""
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
