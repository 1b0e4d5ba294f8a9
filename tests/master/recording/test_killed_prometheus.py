"""The writer against a Prometheus that is killed, and may come back with an empty disk."""

import shutil
from collections.abc import Iterator

import pytest
from peewee import Database

from mlbench_master.models import Run
from mlbench_master.recording import delivery as module
from tests.conftest import PrometheusServer, wait_for
from tests.master.recording.case import Case
from tests.support.deliverer import delivering
from tests.support.places import nothing_waits


@pytest.fixture
def own_case(database: Database, own_prometheus: PrometheusServer) -> Iterator[Case]:
    case = Case(writes_to=own_prometheus.url, reads_from=own_prometheus.url)
    yield case
    case.close()


def redeliveries(case: Case) -> int:
    found: int = Run.get_by_id(case.run.id).redeliveries
    return found


def test_an_empty_disk_while_samples_wait(
    own_case: Case,
    own_prometheus: PrometheusServer,
    database: Database,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with delivering(own_case.delivery, database, own_case.recount):
        for _ in range(3):
            own_case.record_some()
            wait_for(nothing_waits)
        own_prometheus.kill()
        shutil.rmtree(own_prometheus.folder / "data")
        own_case.record_some()
        wait_for(lambda: "takes no samples" in caplog.text, what="the absence was noticed")
        own_prometheus.start()
        wait_for(lambda: redeliveries(own_case) == 1, what="the loss was noticed")
        wait_for(nothing_waits)
        own_case.record_some()
        wait_for(nothing_waits)
    own_case.assert_complete()
    assert redeliveries(own_case) == 1


def test_a_disk_that_is_lost_again_while_all_is_sent_again(
    own_case: Case, own_prometheus: PrometheusServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_BYTES", 500)
    for _ in range(3):
        own_case.record_some()
    own_case.deliver_all()
    for _ in range(2):
        own_prometheus.lose_everything()
        own_case.recount()
        own_case.delivery.deliver_waiting()
        assert not nothing_waits(), "all of it was in one batch"
    own_case.deliver_all()
    own_case.assert_complete()
    assert redeliveries(own_case) == 2
