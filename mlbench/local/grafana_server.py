"""The Grafana of the local stack: finds an installed one, and makes its settings."""

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mlbench.contract import names
from mlbench.contract.login import Login
from mlbench.local.assets import grafana_folder
from mlbench.local.grafana_archive import MONITORING_PAGE
from mlbench.local.home import Home

NONE_FOUND = f"none found; `mlbench grafana install` brings one, or see {MONITORING_PAGE}"

_PROGRAMS = ("grafana", "grafana-server")
_USUAL_HOME = Path("/usr/share/grafana")
_HOME_PAGE = "/d/mlbench-runs"


@dataclass(frozen=True)
class InstalledGrafana:
    """A Grafana that is installed on this machine."""

    program: Path
    home: Path | None
    """The folder with its web pages and default settings, if found."""

    def command(self) -> tuple[str, ...]:
        """Return the command that starts it."""
        subcommand = () if self.program.name == "grafana-server" else ("server",)
        home = ("--homepath", str(self.home)) if self.home else ()
        return (str(self.program), *subcommand, *home)


def find_grafana(
    environ: Mapping[str, str] = os.environ, home: Home | None = None
) -> InstalledGrafana | None:
    """Return the Grafana that the stack uses, or None.

    That is the one in $GRAFANA (its program or home folder), else the one that ``mlbench grafana
    install`` has unpacked, else the one on the path.
    """
    named = environ.get("GRAFANA")
    if named and Path(named).is_dir():
        return _in_home(Path(named).absolute())
    if not named and home and (unpacked := _in_home(home.grafana_program)):
        return unpacked
    programs = [str(Path(named).absolute())] if named else _PROGRAMS
    program = _which(environ.get("PATH"), programs)
    if program is None:
        return None
    prefix = program.resolve().parent.parent
    packaged = prefix / "share" / "grafana"
    if _is_home(packaged) and not _is_home(prefix):
        # Skip the package's wrapper script, because it reads settings that only root can read.
        return _in_home(packaged) or InstalledGrafana(program, packaged)
    folder = next(filter(_is_home, (prefix, _USUAL_HOME)), None)
    return InstalledGrafana(program, folder)


def _in_home(home: Path) -> InstalledGrafana | None:
    program = _which(str(home / "bin"), _PROGRAMS)
    return InstalledGrafana(program, home) if program else None


def _which(path: str | None, programs: Iterable[str]) -> Path | None:
    program = next(filter(None, (shutil.which(name, path=path) for name in programs)), None)
    return Path(program).absolute() if program else None


def _is_home(folder: Path) -> bool:
    return (folder / "conf" / "defaults.ini").is_file()


def settings(
    folder: Path, host: str, port: int, password: str, prometheus_url: str, login: Login | None
) -> dict[str, str]:
    """Return the environment of a Grafana whose dashboards anyone on this machine may see.

    ``folder`` is for its data and logs, ``password`` for the user ``admin``. Viewers can read
    ``prometheus_url``, so ``login`` is apart; None without one.
    """
    user, prometheus_password = login or Login("", "")
    return {
        "GF_PATHS_DATA": str(folder),
        "GF_PATHS_LOGS": str(folder / "log"),
        "GF_PATHS_PLUGINS": str(folder / "plugins"),
        "GF_PATHS_PROVISIONING": str(grafana_folder() / "provisioning"),
        names.ENV_DASHBOARDS: str(grafana_folder() / "dashboards"),
        names.ENV_PROMETHEUS_URL: prometheus_url,
        names.ENV_PROMETHEUS_BASIC_AUTH: "true" if login else "false",
        names.ENV_PROMETHEUS_USER: user,
        names.ENV_PROMETHEUS_PASSWORD: prometheus_password,
        names.ENV_SCRAPE_INTERVAL: names.DEFAULT_SCRAPE_INTERVAL,
        "GF_SERVER_PROTOCOL": "http",
        "GF_SERVER_HTTP_ADDR": host,
        "GF_SERVER_HTTP_PORT": str(port),
        "GF_SERVER_DOMAIN": host,
        # A page of another site must not read it through a name that resolves to this address.
        "GF_SERVER_ENFORCE_DOMAIN": "true",
        "GF_SERVER_ROOT_URL": f"http://{host}:{port}/",
        # The web pages of the master show its panels.
        "GF_SECURITY_ALLOW_EMBEDDING": "true",
        "GF_SECURITY_ADMIN_USER": "admin",
        "GF_SECURITY_ADMIN_PASSWORD": password,
        "GF_AUTH_ANONYMOUS_ENABLED": "true",
        "GF_AUTH_ANONYMOUS_ORG_ROLE": "Viewer",
        "GF_USERS_HOME_PAGE": _HOME_PAGE,
        # It reports nothing and downloads nothing.
        "GF_ANALYTICS_REPORTING_ENABLED": "false",
        "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
        "GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES": "false",
        "GF_ANALYTICS_FEEDBACK_LINKS_ENABLED": "false",
        "GF_NEWS_NEWS_FEED_ENABLED": "false",
        "GF_PLUGINS_PREINSTALL_DISABLED": "true",
        "GF_PLUGINS_PREINSTALL_AUTO_UPDATE": "false",
        "GF_PLUGINS_PUBLIC_KEY_RETRIEVAL_DISABLED": "true",
        "GF_SECURITY_DISABLE_GRAVATAR": "true",
        "GF_SNAPSHOTS_EXTERNAL_ENABLED": "false",
    }
