"""A program that stands where Grafana would: keeps what it was told, and answers its health check.

It takes ``server`` and ``--homepath``, and reads the provisioning files as Grafana does. With a
file ``broken`` beside it, it ends at once.
"""

import argparse
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import yaml


def main() -> None:
    """Serve until SIGTERM."""
    program = Path(sys.argv[0])
    parser = argparse.ArgumentParser()
    parser.add_argument("subcommand", choices=["server"])
    parser.add_argument("--homepath", type=Path)
    options = parser.parse_args()
    if program.with_name("broken").exists():
        sys.exit("failed to load settings")
    data = Path(os.environ["GF_PATHS_DATA"])
    data.mkdir(parents=True, exist_ok=True)
    told = {
        "homepath": str(options.homepath),
        "environ": dict(os.environ),
        "datasources": _provisioned("datasources"),
        "providers": _provisioned("dashboards", "providers"),
    }
    (data / "told.json").write_text(json.dumps(told))
    place = (os.environ["GF_SERVER_HTTP_ADDR"], int(os.environ["GF_SERVER_HTTP_PORT"]))
    HTTPServer(place, _Health).serve_forever()


def _provisioned(kind: str, key: str = "") -> list[Any]:
    """Return what the provisioning files of a kind list, with variables filled in as Grafana does.

    A variable that is not set is empty.
    """

    def fill(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: fill(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [fill(inner) for inner in value]
        if isinstance(value, str) and value.startswith("$"):
            return os.environ.get(value.removeprefix("$"), "")
        return value

    files = (Path(os.environ["GF_PATHS_PROVISIONING"]) / kind).glob("*.yml")
    return [one for file in files for one in fill(yaml.safe_load(file.read_text()))[key or kind]]


class _Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/api/health" else 404)
        self.end_headers()


if __name__ == "__main__":
    main()
