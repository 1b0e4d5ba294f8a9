"""What /metrics says of the worker pods."""

from falcon.testing import TestClient

from master.models import Pod
from tests.master.making import make_pod, make_worker
from tests.master.telemetry.scraping import scrape, value


def test_a_pod_is_described_with_when_it_was_heard_of(api: TestClient) -> None:
    pod = make_pod()
    make_worker(pod, seen_at=12.5)
    [(labels, _)] = scrape(api)["mlbench_pod_info"]
    assert labels == {"pod": pod, "phase": "Running", "node": "here"}
    assert value(api, "mlbench_pod_heartbeat_timestamp_seconds", pod=pod) == 12.5


def test_a_pod_whose_agent_never_spoke_has_no_heartbeat(api: TestClient) -> None:
    pod = make_pod()
    Pod.update(phase="Pending").where(Pod.name == pod).execute()
    assert value(api, "mlbench_pod_info", pod=pod, phase="Pending") == 1
    assert "mlbench_pod_heartbeat_timestamp_seconds" not in scrape(api)


def test_a_worker_whose_pod_is_gone_is_not_shown(api: TestClient) -> None:
    make_worker("gone")
    assert "mlbench_pod_heartbeat_timestamp_seconds" not in scrape(api)
