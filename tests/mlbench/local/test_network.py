"""Errors about network limits that this machine does not support."""

import sys
from pathlib import Path

import pytest

from mlbench.local.network import probe
from tests.support.processes import run_text

_NO = "the bandwidth of workers here cannot be limited: "
# Forbid namespaces to root and to other users.
_FORBID = f"""
echo 0 >/proc/sys/user/max_user_namespaces
exec setpriv --bounding-set -sys_admin --inh-caps -sys_admin {sys.executable} -c \
    'from mlbench.local.network import probe; print(probe().no_bandwidth)'
"""


def test_a_missing_tool_has_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlbench.local.network.with_tools", lambda: {"PATH": str(tmp_path)})
    found = probe()
    assert found.no_bandwidth == f"{_NO}ip not found: install iproute2"
    assert found.no_latency.endswith(": ip not found: install iproute2")


@pytest.mark.slow
def test_a_setting_that_forbids_namespaces_is_named() -> None:
    told = run_text(["unshare", "--user", "--map-root-user", "sh", "-ec", _FORBID])
    if told.returncode:
        pytest.skip(f"no user namespaces here: {told.stderr}")
    assert told.stdout.startswith(f"{_NO}unshare: unshare")
    hint = "; an administrator allows it by `sysctl user.max_user_namespaces=10000`"
    assert told.stdout.strip().endswith(hint)
