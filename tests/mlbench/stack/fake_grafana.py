"""A program that stands where Grafana would: reads what Grafana reads, and answers as it does.

It takes ``server`` and ``--homepath``, fills in the provisioning files as Grafana does, has the
dashboards and data sources that they name, and keeps what it was told in its data folder. With a
file ``broken`` beside it, it ends at once; with a file ``mute``, it never answers.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from tests.master.grafana.rules import GrafanaState
from tests.master.grafana.server import GrafanaServer


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
    if program.with_name("mute").exists():
        time.sleep(1000)
    state = _provisioned(Path(os.environ["GF_PATHS_PROVISIONING"]))
    state.passwords = {
        os.environ["GF_SECURITY_ADMIN_USER"]: os.environ["GF_SECURITY_ADMIN_PASSWORD"]
    }
    told = {"homepath": str(options.homepath), "environ": dict(os.environ)}
    (data / "told.json").write_text(json.dumps(told))
    assert os.environ["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"
    GrafanaServer(state, int(os.environ["GF_SERVER_HTTP_PORT"])).serve()


def _provisioned(folder: Path) -> GrafanaState:
    state = GrafanaState()
    for file in (folder / "datasources").glob("*.yml"):
        for number, source in enumerate(_filled_in(file)["datasources"], start=1):
            read_only = not source.pop("editable")
            source["basicAuth"] = source["basicAuth"] == "true"
            source["secureJsonFields"] = {
                key: True for key, value in source.pop("secureJsonData").items() if value
            }
            state.data_sources.append({"id": number, "version": 1, "readOnly": read_only, **source})
    for file in (folder / "dashboards").glob("*.yml"):
        for provider in _filled_in(file)["providers"]:
            _read_dashboards(state, provider)
    return state


def _read_dashboards(state: GrafanaState, provider: dict[str, Any]) -> None:
    uid, title = provider["folderUid"], provider["folder"]
    state.folders[uid] = {"uid": uid, "title": title}
    for number, file in enumerate(sorted(Path(provider["options"]["path"]).glob("*.json")), 1):
        board = json.loads(file.read_text())
        state.dashboards[board["uid"]] = {
            "dashboard": {**board, "id": number, "version": 1},
            "meta": {
                "folderUid": uid,
                "url": f"/d/{board['uid']}/board",
                "provisioned": not provider["allowUiUpdates"],
            },
        }


def _filled_in(file: Path) -> dict[str, Any]:
    """Return a provisioning file's content: variables that are not set are empty."""

    def fill(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: fill(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [fill(inner) for inner in value]
        if isinstance(value, str) and value.startswith("$"):
            return os.environ.get(value.removeprefix("$"), "")
        return value

    content: dict[str, Any] = fill(yaml.safe_load(file.read_text()))
    assert content["apiVersion"] == 1
    return content


if __name__ == "__main__":
    main()
