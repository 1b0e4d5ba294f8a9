"""Servers from Debian packages."""

import os
import shutil
from pathlib import Path

import pytest


def program(name: str) -> str:
    """Return the path of a server that scripts/get-debian.sh fetched, or skip the test."""
    variable = name.rpartition("-")[2].upper()
    path = os.environ.get(variable) or shutil.which(name)
    if path is None:
        pytest.skip(f"${variable} is not set to what `scripts/get-debian.sh {name}` prints")
    return path


def alertmanager() -> tuple[str, ...]:
    """Return the command that starts Debian's Alertmanager, or skip the test."""
    path = Path(program("prometheus-alertmanager"))
    place = Path("/usr/share/prometheus/alertmanager")
    if place.exists():
        return (str(path),)
    # Alertmanager looks for its templates where the package installs them. The mount namespace
    # makes them visible to this process only.
    templates = path.resolve().parents[1] / "share" / "prometheus" / "alertmanager"
    script = (
        f"mount -t tmpfs none /usr/share && mkdir {place.parent} && ln -s {templates} {place} && "
        'exec "$0" "$@"'
    )
    return ("unshare", "--map-root-user", "--mount", "sh", "-c", script, str(path))
