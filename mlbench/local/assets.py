"""The files that come with the code: Prometheus's configuration, dashboards, runbooks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parents[1]
CHECKOUT: Final = _PACKAGE.parent
"""The folder of the repository, unless this is an installed package."""
_OLDEST_GRAFANA: Final = 10


def prometheus_folder() -> Path:
    """Return the folder of prometheus.yml and its rules."""
    return _find("prometheus")


def grafana_folder() -> Path:
    """Return the folder of the dashboards and of Grafana's provisioning."""
    return _find("grafana")


def too_old_for_dashboards(health: Mapping[str, object]) -> str:
    """Return a message if a Grafana is too old for the dashboards, by its health report.

    Empty if it is new enough, or does not report its version.
    """
    version = str(health.get("version", ""))
    major = version.partition(".")[0]
    if not major.isdecimal() or int(major) >= _OLDEST_GRAFANA:
        return ""
    return f"MLBench needs Grafana {_OLDEST_GRAFANA} or newer; this is Grafana {version}"


def runbooks_folder() -> Path:
    """Return the folder of the runbooks, one file per alert."""
    return _find("docs/runbooks")


def web_folder() -> Path:
    """Return the folder of the web pages' templates and static files."""
    pages = Path("mlbench_master", "web")
    return next(
        folder / pages for folder in (CHECKOUT, CHECKOUT / "master") if (folder / pages).is_dir()
    )


def _find(name: str) -> Path:
    installed = _PACKAGE / name
    return installed if installed.is_dir() else CHECKOUT / name
