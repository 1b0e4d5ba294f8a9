"""``mlbench up`` with a Grafana: a program that stands for it, run by the real supervisor."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import tests
from mlbench import names
from mlbench.assets import grafana_folder
from mlbench.grafana import DATA_SOURCE_NAME, DATA_SOURCE_UID, FOLDER_TITLE, FOLDER_UID
from mlbench.home import Home
from mlbench.login import split_login
from mlbench.stack import launch
from tests.conftest import wait_for

_CHECKOUT = Path(tests.__file__).parents[1]


@pytest.fixture
def grafana_home(tmp_path: Path) -> Path:
    """A home folder of Grafana, with the program that stands for it."""
    home = tmp_path / "grafana"
    program = home / "bin" / "grafana"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        f"sys.path.insert(0, {str(_CHECKOUT)!r})\n"
        "from tests.mlbench.stack.fake_grafana import main\n"
        "main()\n"
    )
    program.chmod(0o755)
    (home / "conf").mkdir()
    (home / "conf" / "defaults.ini").touch()
    return home


@pytest.fixture
def home(
    grafana_home: Path,
    prometheus_binary: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
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


def start(home: Home) -> str:
    """Start a stack with one worker, and return Grafana's address."""
    url = launch.start_detached(home, workers=1, port=None).grafana_url
    assert url is not None
    return url


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/api/health").is_success
    except httpx.HTTPError:
        return False


def show_stack(home: Home) -> str:
    """Return what ``mlbench up`` says of a stack that runs."""
    done = subprocess.run(
        [Path(sys.executable).with_name("mlbench"), "up"],
        env={**os.environ, names.ENV_HOME: str(home.root)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.slow
def test_a_grafana_that_is_found_is_provisioned_and_shown(home: Home, grafana_home: Path) -> None:
    url = start(home)
    wait_for(lambda: answers(url), what="Grafana answers")
    assert f"  Grafana     {url}\n" in show_stack(home)

    told = json.loads((home.grafana / "told.json").read_text())
    environ = told["environ"]
    password = home.root / "grafana-password"
    assert told["homepath"] == str(grafana_home)
    assert environ["GF_SECURITY_ADMIN_PASSWORD"] == password.read_text().strip()
    assert stat.S_IMODE(password.stat().st_mode) == 0o600
    assert "GF_DATABASE_URL" not in environ, "of another Grafana"
    for name in (names.ENV_TOKEN, names.ENV_AGENT_SECRET):
        assert name not in environ

    [source] = told["datasources"]
    place, login = split_login(home.read_connection().prometheus_url or "")
    assert (source["uid"], source["name"]) == (DATA_SOURCE_UID, DATA_SOURCE_NAME)
    assert login is not None
    assert (source["url"], source["basicAuth"], source["basicAuthUser"]) == (
        place,
        "true",
        login.user,
    )
    assert source["secureJsonData"] == {"basicAuthPassword": login.password}
    assert source["jsonData"] == {"httpMethod": "POST", "timeInterval": "2s"}
    [provider] = told["providers"]
    assert (provider["folderUid"], provider["folder"]) == (FOLDER_UID, FOLDER_TITLE)
    assert provider["options"]["path"] == str(grafana_folder() / "dashboards")


@pytest.mark.slow
def test_a_grafana_that_does_not_start_keeps_nothing_from_running(
    home: Home, grafana_home: Path
) -> None:
    (grafana_home / "bin" / "broken").touch()
    url = start(home)
    assert httpx.get(f"{home.read_connection().url}/readyz").is_success
    assert "failed to load settings" in (home.logs / "grafana.log").read_text()
    [line] = [line for line in show_stack(home).splitlines() if "Grafana" in line]
    assert line.endswith(f"{url} (still starting, or see {home.logs / 'grafana.log'})")

    # It is started again, and now it works.
    (grafana_home / "bin" / "broken").unlink()
    wait_for(lambda: answers(url), what="Grafana answers")
