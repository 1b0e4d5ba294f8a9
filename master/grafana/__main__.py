"""``python -m master.grafana``: pushes to a Grafana once; ``mlbench grafana push`` runs it.

The token comes in $GRAFANA_TOKEN and how Grafana reaches Prometheus, which may hold a password, in
$GRAFANA_PROMETHEUS_URL: a command line is everyone's to read.
"""

import argparse
import json
import os
import sys
from contextlib import closing
from dataclasses import asdict

from master.grafana.client import Grafana
from master.grafana.push import push
from mlbench import names
from mlbench.assets import grafana_folder
from mlbench.errors import MLBenchError


def main() -> None:
    """Push, and print what was done as JSON; or say in one line why it cannot be."""
    parser = argparse.ArgumentParser(prog="master.grafana", description="Pushes to a Grafana.")
    parser.add_argument("--url", required=True, help="address of Grafana")
    arguments = parser.parse_args()
    interval = os.environ.get(names.ENV_SCRAPE_INTERVAL) or names.DEFAULT_SCRAPE_INTERVAL
    try:
        token = os.environ.get(names.ENV_GRAFANA_TOKEN, "")
        prometheus_url = os.environ[names.ENV_GRAFANA_PROMETHEUS_URL]
        with closing(Grafana(arguments.url, token)) as grafana:
            dashboards = grafana_folder() / "dashboards"
            done = push(grafana, dashboards, prometheus_url, interval)
    except MLBenchError as error:
        sys.exit(str(error))
    print(json.dumps(asdict(done)))


if __name__ == "__main__":
    main()
