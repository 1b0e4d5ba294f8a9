"""A datagram wakes an agent, which then polls at once."""

import threading
from pathlib import Path

from mlbench_master.pools.pool import PodStatus, wake
from mlbench_worker.agent.agent import Agent
from mlbench_worker.agent.master_client import MasterClient, PollResponse
from mlbench_worker.agent.metrics_endpoint import WorkerCollector
from tests.conftest import free_port, wait_for


class Master(MasterClient):
    """Counts polls, and requests the next one in an hour."""

    polls = 0

    def poll(self, *_: object) -> PollResponse:
        self.polls += 1
        return PollResponse("wait", 3600.0, None)


def test_an_agent_is_woken_by_the_controller(tmp_path: Path) -> None:
    master, port = Master("http://127.0.0.1", "token"), free_port()
    agent = Agent("w-0", tmp_path, lambda: master, WorkerCollector("w-0"), start_in=tmp_path)
    agent.listen("127.0.0.1", port)
    agent.listen("127.0.0.1", port)  # the port is in use, which must do no harm
    thread = threading.Thread(target=agent.run)
    thread.start()
    wait_for(lambda: master.polls == 1, what="it polls")
    wake([PodStatus("w-0", 0, "Running", "127.0.0.1", "n", {}, port)])
    wait_for(lambda: master.polls == 2, what="it polls again")
    agent.quit()
    thread.join()
