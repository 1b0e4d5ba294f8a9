"""The files that come with the code: Prometheus's configuration, dashboards, runbooks."""

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parent
CHECKOUT: Final = _PACKAGE.parent
"""The folder of the repository, unless this is an installed package."""


def prometheus_folder() -> Path:
    """Return the folder of prometheus.yml and its rules."""
    return _find("prometheus")


def grafana_folder() -> Path:
    """Return the folder of the dashboards and of Grafana's provisioning."""
    return _find("grafana")


def runbooks_folder() -> Path:
    """Return the folder of what to do about each alert, a file of its name."""
    return _find("docs/runbooks")


def _find(name: str) -> Path:
    installed = _PACKAGE / name
    return installed if installed.is_dir() else CHECKOUT / name
