"""Isolation of pods: a worker's token gives access only to its own rank."""

import httpx
import pytest

from mlbench.contract.records import Run
from tests.e2e.release import Object, Release


@pytest.fixture
def going(release: Release) -> Run:
    """An endless run of two ranks."""
    run = release.order("guarded", "steps", steps=100_000, rate=1)
    release.wait_until_recorded(run, "step", 1)
    return run


def token_of(release: Release, pod: str) -> str:
    """Return a pod's token, read like a process in the pod."""
    read = ("exec", pod, "--container", "worker", "--", "cat", "/run/mlbench/token")
    return release.kubectl(*read).strip()


def call(release: Release, method: str, path: str, token: str, **body: object) -> httpx.Response:
    return httpx.request(
        method,
        f"{release.url}{path}",
        headers={"Authorization": f"Bearer {token}"},
        timeout=30.0,
        **body,  # type: ignore[arg-type]
    )


def uid_of(pod: Object) -> str:
    uid: str = pod["metadata"]["uid"]
    return uid


def test_the_token_of_a_pod_is_valid_only_for_its_own_rank(release: Release, going: Run) -> None:
    own, other = release.kept_workers
    pods = release.pods("worker")
    token = token_of(release, own)
    assert token.startswith(f"{own}/{uid_of(pods[own])}/")
    forged = {"content": b'{"time": 1, "metrics": {"forged": 1}}\n'}
    streams = [f"/api/runs/{going.id}/ranks/{rank}/stdout?attempt=1&offset=0" for rank in (0, 1)]
    # The controller decides which rank belongs to the pod.
    answers = [call(release, "PUT", stream, token, **forged).status_code for stream in streams]
    assert sorted(answers) == [200, 403]
    idle = {"state": "idle", "ip": "", "pod_uid": uid_of(pods[other])}
    for pod in (own, other):
        answer = call(release, "POST", f"/api/workers/{pod}/poll", token, json=idle)
        assert answer.status_code == 403, pod
    assert call(release, "GET", "/api/runs", token).status_code == 403
    release.client.stop_run(going.id).result()
    assert release.wait_for_end(going).state == "STOPPED"
