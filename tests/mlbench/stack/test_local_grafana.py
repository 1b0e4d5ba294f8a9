"""``mlbench up`` with a Grafana: a program that stands for it, run by the real supervisor."""

import json
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import Any

import httpx
import pytest
import yaml

from mlbench import names
from mlbench.assets import grafana_folder
from mlbench.grafana import DATA_SOURCE_NAME, DATA_SOURCE_UID, FOLDER_TITLE, FOLDER_UID
from mlbench.home import Home
from mlbench.login import split_login
from mlbench.stack import launch
from tests.conftest import wait_for
from tests.support.known import known
from tests.support.processes import run_text

# Keeps what it was told, and answers its health check with the version in the file "version".
# Beside a file "broken" it ends at once.
_PROGRAM = f"""#!{sys.executable}
import json, os, pathlib, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

here = pathlib.Path(sys.argv[0])
if here.with_name("broken").exists():
    sys.exit("failed to load settings")

class Health(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/api/health" else 404)
        self.end_headers()
        version = here.with_name("version").read_text()
        self.wfile.write(json.dumps({{"database": "ok", "version": version}}).encode())

data = pathlib.Path(os.environ["GF_PATHS_DATA"])
data.mkdir(parents=True, exist_ok=True)
(data / "told.json").write_text(json.dumps([sys.argv[1:], dict(os.environ)]))
place = (os.environ["GF_SERVER_HTTP_ADDR"], int(os.environ["GF_SERVER_HTTP_PORT"]))
HTTPServer(place, Health).serve_forever()
"""


@pytest.fixture
def grafana_home(tmp_path: Path) -> Path:
    """A home folder of Grafana, with the program that stands for it."""
    home = tmp_path / "grafana"
    program = home / "bin" / "grafana"
    program.parent.mkdir(parents=True)
    program.write_text(_PROGRAM)
    program.chmod(0o755)
    program.with_name("version").write_text("12.2.0")
    (home / "conf").mkdir()
    (home / "conf" / "defaults.ini").touch()
    return home


@pytest.fixture
def home(
    grafana_home: Path, prometheus_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Home]:
    """The home folder of a stack that is yet to be started, and finds that Grafana."""
    monkeypatch.setenv("PROMETHEUS", str(prometheus_binary))
    monkeypatch.setenv("GRAFANA", str(grafana_home))
    monkeypatch.setenv("GF_DATABASE_URL", "postgres://of-another-grafana")
    for name in (names.ENV_GRAFANA_URL, names.ENV_GRAFANA_TOKEN):
        monkeypatch.delenv(name, raising=False)
    home = Home(tmp_path / "home")
    yield home
    launch.stop(home)


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/api/health").is_success
    except httpx.HTTPError:
        return False


def shown_by_up(home: Home) -> str:
    """Return the line of ``mlbench up`` about the Grafana of a stack that runs."""
    environ = {**os.environ, names.ENV_HOME: str(home.root)}
    program = Path(sys.executable).with_name("mlbench")
    said = run_text([program, "up"], env=environ, check=True)
    [line] = [line for line in said.stdout.splitlines() if "Grafana" in line]
    return line


def provisioned(file: str, environ: Mapping[str, str]) -> Any:
    """Return what a provisioning file says, with variables filled in as Grafana does."""
    text = (Path(environ["GF_PATHS_PROVISIONING"]) / file).read_text()
    return yaml.safe_load(Template(text).substitute(environ))


@pytest.mark.slow
def test_a_grafana_that_is_found_is_provisioned_and_started_until_it_works(
    home: Home, grafana_home: Path
) -> None:
    (grafana_home / "bin" / "broken").touch()
    connection = launch.start_detached(home, workers=1, port=None)
    url = known(connection.grafana_url)
    assert httpx.get(f"{connection.url}/readyz").is_success
    assert "failed to load settings" in (home.logs / "grafana.log").read_text()
    still_starting = f"{url} (still starting, or see {home.logs / 'grafana.log'})"
    assert shown_by_up(home) == f"  Grafana     {still_starting}"

    (grafana_home / "bin" / "broken").unlink()
    wait_for(lambda: answers(url), what="Grafana answers")
    assert shown_by_up(home) == f"  Grafana     {url}"
    (grafana_home / "bin" / "version").write_text("9.5.21")
    too_old = "MLBench needs Grafana 10 or newer; this is Grafana 9.5.21"
    assert shown_by_up(home) == f"  Grafana     {url} ({too_old})"

    arguments, environ = json.loads((home.grafana / "told.json").read_text())
    password = home.root / "grafana-password"
    assert arguments == ["server", "--homepath", str(grafana_home)]
    assert environ["GF_SECURITY_ADMIN_PASSWORD"] == password.read_text().strip()
    assert stat.S_IMODE(password.stat().st_mode) == 0o600
    assert not {"GF_DATABASE_URL", names.ENV_TOKEN, names.ENV_AGENT_SECRET} & environ.keys()

    place, login = split_login(connection.prometheus_url or "")
    assert login is not None
    [file] = (Path(environ["GF_PATHS_PROVISIONING"]) / "datasources").glob("*.yml")
    [source] = provisioned(f"datasources/{file.name}", environ)["datasources"]
    assert (source["uid"], source["name"]) == (DATA_SOURCE_UID, DATA_SOURCE_NAME)
    assert (source["url"], source["basicAuth"]) == (place, True)
    assert source["basicAuthUser"] == login.user
    assert source["secureJsonData"] == {"basicAuthPassword": login.password}
    assert source["jsonData"] == {"httpMethod": "POST", "timeInterval": "2s"}
    [file] = (Path(environ["GF_PATHS_PROVISIONING"]) / "dashboards").glob("*.yml")
    [provider] = provisioned(f"dashboards/{file.name}", environ)["providers"]
    assert (provider["folderUid"], provider["folder"]) == (FOLDER_UID, FOLDER_TITLE)
    assert provider["options"]["path"] == str(grafana_folder() / "dashboards")
