"""The Grafana of the local stack: lookup of the program, command and settings."""

import os
from pathlib import Path

import pytest

from mlbench.contract.login import Login
from mlbench.local import grafana_server
from mlbench.local.grafana_server import InstalledGrafana, find_grafana, settings
from mlbench.local.home import Home


def install(prefix: Path, *programs: str, home: bool = True) -> Path:
    """Create empty programs in a folder's ``bin`` folder; return the folder."""
    (prefix / "bin").mkdir(parents=True, exist_ok=True)
    for program in programs:
        (prefix / "bin" / program).touch(mode=0o755)
    if home:
        (prefix / "conf").mkdir(exist_ok=True)
        (prefix / "conf" / "defaults.ini").touch()
    return prefix


def on_path(*prefixes: Path) -> dict[str, str]:
    return {"PATH": os.pathsep.join(str(prefix / "bin") for prefix in prefixes)}


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grafana_server, "_USUAL_HOME", tmp_path / "usual")


def test_the_newer_program_on_the_path_is_found_with_its_home(tmp_path: Path) -> None:
    assert find_grafana({"PATH": str(tmp_path)}) is None
    old = install(tmp_path / "old", "grafana-server")
    assert find_grafana(on_path(old)) == InstalledGrafana(old / "bin" / "grafana-server", old)
    new = install(tmp_path / "new", "grafana", "grafana-server")
    assert find_grafana(on_path(old, new)) == InstalledGrafana(new / "bin" / "grafana", new)


def test_the_home_of_a_program_is_next_to_it_packaged_or_the_default(tmp_path: Path) -> None:
    home = install(tmp_path / "opt", "grafana")
    link = tmp_path / "local" / "bin" / "grafana"
    link.parent.mkdir(parents=True)
    link.symlink_to(home / "bin" / "grafana")
    assert find_grafana(on_path(tmp_path / "local")) == InstalledGrafana(link, home)

    usr = install(tmp_path / "usr", "grafana", home=False)
    packaged = install(usr / "share" / "grafana", "grafana")
    real = packaged / "bin" / "grafana"
    assert find_grafana(on_path(usr)) == InstalledGrafana(real, packaged)

    alone = install(tmp_path / "alone", "grafana", home=False)
    program = alone / "bin" / "grafana"
    assert find_grafana(on_path(alone)) == InstalledGrafana(program, None)
    usual = install(tmp_path / "usual", "grafana")
    assert find_grafana(on_path(alone)) == InstalledGrafana(program, usual)


def test_a_downloaded_grafana_precedes_path_but_not_the_variable(tmp_path: Path) -> None:
    home, other = Home(tmp_path / "home"), install(tmp_path / "other", "grafana")
    unpacked = install(home.grafana_program, "grafana")
    found = find_grafana(on_path(other), home)
    assert found == InstalledGrafana(unpacked / "bin" / "grafana", unpacked)
    named = {**on_path(unpacked), "GRAFANA": str(other)}
    assert find_grafana(named, home) == InstalledGrafana(other / "bin" / "grafana", other)


def test_the_variable_precedes_path(tmp_path: Path) -> None:
    other = install(tmp_path / "other", "grafana")
    home = install(tmp_path / "named", "grafana")
    for named in (home, home / "bin" / "grafana"):
        found = find_grafana({**on_path(other), "GRAFANA": str(named)})
        assert found == InstalledGrafana(home / "bin" / "grafana", home)
    for nothing in (tmp_path / "nowhere", tmp_path):
        assert find_grafana({**on_path(other), "GRAFANA": str(nothing)}) is None


def test_both_programs_get_their_arguments() -> None:
    home = Path("/opt/grafana")
    new, old = home / "bin" / "grafana", home / "bin" / "grafana-server"
    assert InstalledGrafana(new, home).command() == (str(new), "server", "--homepath", str(home))
    assert InstalledGrafana(old, home).command() == (str(old), "--homepath", str(home))
    assert InstalledGrafana(new, None).command() == (str(new), "server")


def test_it_serves_only_this_machine_and_allows_anonymous_viewers() -> None:
    login = Login("mlbench", "secret of Prometheus")
    environ = settings(Path("/home"), "127.0.0.1", 3001, "secret", "http://127.0.0.1:9090", login)
    expected = {"SERVER_HTTP_ADDR": "127.0.0.1", "SERVER_HTTP_PORT": "3001"}
    expected |= {"AUTH_ANONYMOUS_ENABLED": "true", "AUTH_ANONYMOUS_ORG_ROLE": "Viewer"}
    expected |= {"SECURITY_ADMIN_PASSWORD": "secret", "ANALYTICS_REPORTING_ENABLED": "false"}
    expected |= {"PLUGINS_PREINSTALL_DISABLED": "true"}
    assert {f"GF_{name}": value for name, value in expected.items()}.items() <= environ.items()
