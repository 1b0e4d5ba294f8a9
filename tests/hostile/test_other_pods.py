"""What the token of one pod does to another: nothing. Of a real stack, while a run goes on."""

import json
import time
from pathlib import Path

import httpx
import pytest

from mlbench import ApiClient, pod_token
from mlbench.home import Home
from mlbench.records import Run
from tests.conftest import wait_for
from tests.support.stacks import losses, order_steps, reload, run_to_end, service, training

pytestmark = pytest.mark.slow

OWN, OTHER = "local-mlbench-worker-0", "local-mlbench-worker-1"
STEPS = 250
SECONDS = 60.0


def agent(home: Home, pod: str = OWN) -> httpx.Client:
    """Return what calls the master as a pod's agent does."""
    connection = home.read_connection()
    headers = {"Authorization": f"Bearer {pod_token.read(home.pod_token(pod))}"}
    return httpx.Client(base_url=connection.url, headers=headers, trust_env=False)


def order_going(client: ApiClient, home: Home, name: str) -> Run:
    """Order a run, and return it once both of its ranks train."""
    ordered = order_steps(client, name, steps=STEPS, rate=100)
    wait_for(lambda: training(home, 0) and training(home, 1), SECONDS, "both ranks train")
    return reload(client, ordered)


def assert_unharmed(client: ApiClient, run: Run) -> None:
    """Make sure that a run ends as if nobody had done anything to it."""
    ended = run_to_end(client, run)
    assert ended.state == "FINISHED", ended.reason
    for rank in (0, 1):
        expected = [1 / (1 + step / 100) for step in range(1, STEPS + 1)]
        assert losses(client, run, rank) == pytest.approx(expected)
    assert not [name for name in client.get_run_metrics(run.id).result().value if "forged" in name]


def test_it_writes_and_ends_nothing_of_another_rank(stack: Home, client: ApiClient) -> None:
    run = order_going(client, stack, "forged")
    forged = json.dumps({"time": time.time(), "metrics": {"forged": 1.0, "train_loss": 0.0}})
    with agent(stack) as hostile:
        for stream in ("metrics", "stdout", "stderr"):
            for offset in (0, 1, 1 << 20):
                answer = hostile.put(
                    f"/api/runs/{run.id}/ranks/1/{stream}",
                    params={"attempt": 1, "offset": offset},
                    content=f"{forged}\n".encode() * 20,
                )
                assert answer.status_code == 403, answer.text
        about = {"run_id": run.id, "attempt": 1, "rank": 1, "ip": "127.0.0.1"}
        ended = {"state": "exited", "exit_code": 0, "exited_at": time.time(), "sizes": {}} | about
        # By its name, and by a report about it.
        assert hostile.post(f"/api/workers/{OTHER}/poll", json=ended).status_code == 403
        assert hostile.post(f"/api/workers/{OWN}/poll", json=ended).status_code == 200
        assert hostile.post(f"/api/workers/{OTHER}/poll", json={}).status_code == 403
    environments_have_no_token(stack)
    assert_unharmed(client, run)


def test_it_invents_no_pods(stack: Home, client: ApiClient) -> None:
    idle = {"state": "idle", "ip": "127.0.0.1"}
    token = pod_token.read(stack.pod_token(OWN))
    proof = token.rpartition("/")[2]
    with agent(stack) as hostile:
        for number in range(50):
            path = f"/api/workers/local-mlbench-worker-{number + 1}/poll"
            assert hostile.post(path, json=idle).status_code == 403
            renamed = {"Authorization": f"Bearer local-mlbench-worker-{number + 1}//{proof}"}
            assert hostile.post(path, json=idle, headers=renamed).status_code == 401
        other_uid = {"Authorization": f"Bearer {OWN}/another-uid/{proof}"}
        report = idle | {"pod_uid": "another-uid"}
        path = f"/api/workers/{OWN}/poll"
        assert hostile.post(path, json=report, headers=other_uid).status_code == 401
        assert hostile.post(path, json=report).status_code == 403
    assert {pod.name for pod in client.get_worker_pods().result().value} == {OWN, OTHER}


def environments_have_no_token(stack: Home) -> None:
    """Make sure that no agent and no training process has a token in its environment."""
    agents = [service(stack, pod) for pod in (OWN, OTHER)]
    secrets = [
        stack.read_connection().token,
        (stack.root / "agent-secret").read_text().strip(),
        *(pod_token.read(stack.pod_token(pod)) for pod in (OWN, OTHER)),
    ]
    processes = [*agents, *training(stack, 0), *training(stack, 1)]
    assert len(processes) >= 4
    for process in processes:
        environ = Path(f"/proc/{process.pid}/environ").read_text(errors="replace")
        assert "MLBENCH_HOME" in environ
        assert not [secret for secret in secrets if secret in environ], process
