"""A run whose processes somebody else starts: they join it, and all that they record arrives."""

import json
import random
import time
import uuid
from typing import Any

import httpx

from mlbench import ApiClient
from mlbench.home import Home
from mlbench.join_token import make, new_holder
from mlbench_worker.agent.link import Link
from tests.conftest import wait_for
from tests.support.stacks import assert_counted, reload, run_to_end

RANKS = 4
STEPS = 50


class Recorder:
    """What stands beside one process, and sends what it writes."""

    def __init__(self, url: str, token: str, key: str, rank: int) -> None:
        self.uid, self.rank = uuid.uuid4().hex, rank
        order = {"key": key, "rank": rank, "num_workers": RANKS, "launcher": "slurm"}
        order |= {"command": "python train.py", "host": f"node-{rank}", "uid": self.uid}
        answer = httpx.post(f"{url}/api/join/", json=order, auth=("me", token), timeout=30)
        self.joined: dict[str, Any] = answer.raise_for_status().json()
        self.link = Link(url, self.joined["token"])

    def poll(self, state: str, **fields: Any) -> str:
        said = {"state": state, "ip": "", "pod_uid": self.uid, "rank": self.rank}
        said |= {name: self.joined[name] for name in ("run_id", "attempt")}
        return self.link.poll(self.joined["pod"], said | fields).do

    def ship(self, stream: str, data: bytes) -> None:
        path = f"/api/runs/{self.joined['run_id']}/ranks/{self.rank}/{stream}?attempt=1"
        assert self.link.ship(path, 0, data).offset == len(data)


def test_four_ranks_that_somebody_else_has_started(client: ApiClient, stack: Home) -> None:
    connection = stack.read_connection()
    token = make(connection.token, int(time.time()) + 60, new_holder())
    ranks = random.Random(7).sample(range(RANKS), RANKS)  # noqa: S311 - an order, no secret
    first, *others = ranks
    recorders = [Recorder(connection.url, token, "job", first)]
    run = client.get_run(recorders[0].joined["run_id"]).result().value
    assert (run.state, run.launcher, run.title) == ("STARTED", "slurm", "slurm job")
    words = "1 of 4 ranks have joined; missing: "
    wait_for(lambda: reload(client, run).waiting.startswith(words), what=words)
    recorders += [Recorder(connection.url, token, "job", rank) for rank in others]
    assert {one.joined["run_id"] for one in recorders} == {run.id}
    assert all(one.poll("running") == "wait" for one in recorders)
    wait_for(lambda: not reload(client, run).waiting, what="all have joined")
    pods = {pod.name: pod for pod in client.get_worker_pods().result().value}
    assert pods[f"run-{run.id}-rank-2"].node == "node-2"
    assert len(pods) == 2 + RANKS

    lines = [{"time": time.time(), "metrics": {"train_loss": 1 / (i + 1)}} for i in range(STEPS)]
    metrics = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    for one in recorders:
        one.ship("metrics", metrics)
        one.ship("stdout", b"done\n")
        sizes = {"metrics": len(metrics), "stdout": 5, "stderr": 0}
        one.poll("exited", exit_code=0, exited_at=time.time(), sizes=sizes)

    ended = run_to_end(client, run)
    assert (ended.state, ended.reason) == ("FINISHED", "")
    assert_counted(ended)
    assert ended.delivery is not None
    assert ended.delivery.recorded == RANKS * STEPS
    last = {"exit_code": 0, "exited_at": time.time(), "sizes": {}}
    for one in recorders:
        assert one.poll("exited", **last) == "stop"
        one.link.close()
    assert len(client.get_worker_pods().result().value) == 2
    wait_for(lambda: reload(client, run).archive is not None, what="it is sealed")
    assert client.get_manifest(run.id).result().value.launcher == "slurm"
