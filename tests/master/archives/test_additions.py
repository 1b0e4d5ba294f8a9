"""Samples that are posted after a run's end can be read, and change nothing that was known."""

from typing import Any

import pytest

from mlbench.archive import opened
from mlbench_master.database.models import Run, Stream
from mlbench_master.runs import deletion, lifecycle
from mlbench_master.timestamps import seconds_to_text
from tests.master.archives.conftest import Master
from tests.support import reading
from tests.support.known import known
from tests.support.rows import reload

_ACCURACY = "acc @ 0"


def add(master: Master, run: Run, value: float, ago: float = 89.0) -> Any:
    """Post an accuracy that is dated within the run, and return the sample."""
    date = seconds_to_text(known(run.finished_at) - ago)
    sample = {"run_id": run.id, "name": _ACCURACY, "date": date, "value": value}
    answer = master.api.simulate_post("/api/metrics", json=sample)
    assert answer.status_code == 201, answer.text
    return {"date": date, "value": f"{value:g}"}


def known_facts(master: Master, run: Run) -> list[Any]:
    """Return what the API says of a run's result, its events, and its archive's digest."""
    get = master.api.simulate_get
    events = get(f"/api/runs/{run.id}/events").json
    described = get(f"/api/runs/{run.id}").json
    return [
        get(f"/api/runs/{run.id}/result").json,
        get("/api/compare", params={"runs": run.id}).json,
        [event for event in events if event["kind"] != "added"],
        {name: value for name, value in described.items() if name != "added"},
        get(f"/api/runs/{run.id}/archive").content,
        reading.get_run(master.api, run, added="false").json,
    ]


@pytest.mark.parametrize("is_sealed_first", [True, False])
def test_later_samples_change_no_result(master: Master, run: Run, is_sealed_first: bool) -> None:
    if is_sealed_first:
        master.sealer.turn()
    sample = add(master, run, 99.9)
    if not is_sealed_first:
        master.sealer.turn()
    before = known_facts(master, run)
    # The 776th value; the one that was added is dated a second after the start.
    assert before[0]["time_to_target"]["wall_seconds"] == 77.6
    for forget in (False, False, True):
        points = reading.get_run(master.api, run).json[_ACCURACY]
        assert [point for point in points if "added" in point] == [sample | {"added": True}]
        assert known_facts(master, run) == before
        master.recording.run_all()
        master.sealer.turn()
        if forget:
            master.server.lose_everything()
    points = reading.get_run(master.api, run).json[_ACCURACY]
    assert sample | {"added": True} in points
    assert known_facts(master, run) == before


def test_additions_are_counted_listed_and_sealed_separately(master: Master, run: Run) -> None:
    master.sealer.turn()
    for samples, value in enumerate((1.0, 2.0), start=1):
        for _ in range(2):  # the same again adds nothing
            add(master, run, value, ago=80 + value)
        master.recording.run_all()
        master.sealer.turn()
        events = master.api.simulate_get(f"/api/runs/{run.id}/events").json
        [text] = [event["text"] for event in events if event["kind"] == "added"]
        assert text.endswith(f"added after the end, not part of the result: {samples}")
        verified = master.verify(run)
        assert (verified["problems"], verified["added"]["samples"]) == ([], samples)
        files = [file.stat().st_size for file in master.folder.iterdir()]
        assert (len(files), reload(run).archive_bytes) == (2, sum(files))
        with opened(master.folder / reload(run).added["archive"]) as archive:
            assert archive.check() == []
            [(name, sealed)] = archive.series.items()
            assert (str(name), sealed.samples + sealed.kept) == (_ACCURACY, samples)
    (master.folder / reload(run).added["archive"]).write_bytes(b"")
    [problem] = master.verify(run)["problems"]
    assert ".added.mlbench" in problem


def test_a_repeated_post_of_an_earlier_sample_is_not_an_addition(master: Master, run: Run) -> None:
    ended = run.finished_at
    Run.update(finished_at=None).execute()
    add(master, run, 5.0)
    Run.update(finished_at=ended).execute()
    add(master, run, 5.0)
    assert reload(run).added is None
    master.recording.run_all()
    points = reading.get_run(master.api, run).json[_ACCURACY]
    assert all("added" not in point for point in points)


def test_additions_go_with_their_run(master: Master, run: Run) -> None:
    master.sealer.turn()
    add(master, run, 1.0)
    master.recording.run_all()
    master.sealer.turn()
    assert len(list(master.folder.iterdir())) == 2
    lifecycle.delete(reload(run))
    master.sealer.turn()
    while deletion.sweep():
        pass
    assert not list(master.folder.iterdir())
    assert not Stream.select().where(Stream.owner.contains(str(run.id))).exists()


def test_a_run_that_recorded_nothing_says_that_samples_were_added(master: Master) -> None:
    nothing = {"recorded": 0, "in_prometheus": 0, "record_only": 0}
    run = master.make_ended()
    Run.update(delivery=nothing, benchmark="").execute()
    add(master, run, 1.0)
    reason = master.api.simulate_get(f"/api/runs/{run.id}").json["reason"]
    assert reason.startswith("it recorded nothing")
    assert reason.endswith("Samples that were added after its end: 1")
