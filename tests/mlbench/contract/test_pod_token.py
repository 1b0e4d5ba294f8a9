"""Pod tokens: creation, file permissions, and identification of the pod."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mlbench.contract import pod_token
from mlbench.contract.pod_token import PodIdentity, derive, identify

SECRET = "what tokens are made with"
PODS = [
    PodIdentity("r-mlbench-worker-0", "5b1f6b1e-7c1a-4c53-8e6b-6c9b8d6b7a10"),
    PodIdentity("r-mlbench-worker-0", "0c2f8a34-9d4b-4f0e-b7e3-1d2c3b4a5f60"),
    PodIdentity("r-mlbench-worker-1", "5b1f6b1e-7c1a-4c53-8e6b-6c9b8d6b7a10"),
    PodIdentity("local-mlbench-worker-0", ""),
]


def test_a_token_identifies_its_pod() -> None:
    tokens = [derive(pod, SECRET) for pod in PODS]
    assert [identify(token, SECRET) for token in tokens] == PODS
    assert len({token.rpartition("/")[2] for token in tokens}) == len(PODS)


OWN = derive(PODS[0], SECRET)


@pytest.mark.parametrize(
    "token",
    [
        *("", "/", "//", SECRET, OWN[:-1], OWN + "0", OWN.upper(), OWN.rpartition("/")[2]),
        OWN.replace("worker-0", "worker-1"),
        *(OWN.replace(PODS[0].uid, uid) for uid in (PODS[1].uid, "")),
        OWN.replace(f"/{PODS[0].uid}", f"\0{PODS[0].uid}/"),
        derive(PODS[0], "another secret"),
        "w-0//\xfc",
    ],
)
def test_a_token_made_without_the_secret_is_refused(token: str) -> None:
    assert identify(token, SECRET) is None


def test_only_the_owner_can_read_a_token_file(tmp_path: Path) -> None:
    path = tmp_path / "made" / "token"
    for token in ("one", "two"):
        pod_token.write(path, token)
        assert stat.S_IMODE(path.stat().st_mode) == 0o400
        assert pod_token.read(path) == token
    assert list(path.parent.iterdir()) == [path]


def test_the_init_container_of_a_pod_writes_its_token(tmp_path: Path) -> None:
    pod, path = PODS[0], tmp_path / "token"
    environ = {"MLBENCH_POD": pod.name, "MLBENCH_POD_UID": pod.uid, "MLBENCH_AGENT_SECRET": SECRET}
    command = [sys.executable, "-m", "mlbench.contract.pod_token", str(path)]
    subprocess.run(command, env=os.environ | environ, check=True)
    assert identify(pod_token.read(path), SECRET) == pod
