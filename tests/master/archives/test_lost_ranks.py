"""Data that a rank sends after it was lost is kept, marked, and not part of the result."""

import time
from typing import Any

import pytest

from mlbench.archive import opened
from mlbench.contract.output import OutputFile, OutputList
from mlbench_master.database.models import Rank, Run, Stream, added_owner
from mlbench_master.recording import streams
from tests.conftest import as_pod
from tests.master.archives.conftest import POD, Master
from tests.master.resources import agents
from tests.master.resources.agents import poll
from tests.support import reading
from tests.support.rows import line, reload

pytestmark = pytest.mark.both_databases


def lose(run: Run, rank: int = 0, **fields: Any) -> None:
    """Give up a rank as the controller does."""
    Rank.update(lost="it was silent", **fields).where(Rank.run == run, Rank.rank == rank).execute()
    streams.close(run.id, run.attempt, rank, {})


def ship(master: Master, run: Run, data: bytes, stream: str = "metrics", **params: Any) -> Any:
    """Send a piece of a stream as the agent that has the rank."""
    written = params.get("offset", 0) + len(data)
    return agents.ship(master.api, run.id, data, stream, written=written, **params)


def held(run: Run, name: str = "metrics") -> int:
    return int(Stream.get(owner=f"run/{run.id}", rank=0, name=name).size)


def exited(run: Run, sizes: dict[str, int]) -> dict[str, Any]:
    its = {"run_id": run.id, "attempt": 1, "rank": 0, "exit_code": 0, "exited_at": time.time()}
    return {"state": "exited", "ip": "", "sizes": sizes, **its}


def events(master: Master, run: Run) -> list[str]:
    found = master.api.simulate_get(f"/api/runs/{run.id}/events").json
    return [event["text"] for event in found if event["kind"] == "added"]


def test_samples_of_a_lost_rank_become_additions(master: Master, run: Run) -> None:
    lose(run)
    master.sealer.turn()
    result = master.api.simulate_get(f"/api/runs/{run.id}/result").json
    digest, begins_at = reload(run).archive_sha256, held(run)
    now = time.time()
    first, second = line(now, acc=99.5, note="late"), line(now + 1, acc=99.6)
    torn = line(now + 2, acc=99.7)[:-4]
    # Some of it came before the rank was lost, and a piece may be sent again.
    at, end = begins_at + len(first), begins_at + len(first + second + torn)
    assert ship(master, run, b"12345" + first, offset=begins_at - 5).json["offset"] == at
    for _ in range(2):
        assert ship(master, run, second + torn, offset=at).json["offset"] == end
    master.recording.run_all()
    assert not master.sealer.turn()
    assert "sealed" not in reload(run).added, "its last line may yet go on"
    assert poll(master.api, exited(run, {"metrics": end}), POD, as_pod(POD)).status_code == 200
    master.recording.run_all()
    master.sealer.turn()

    described = master.api.simulate_get(f"/api/runs/{run.id}").json
    assert (described["added"]["samples"], described["added"]["of_lost_ranks"]) == (4, 4)
    assert described["not_recorded"]["malformed_lines"] == 1
    [text] = events(master, run)
    assert text == "Samples that ranks sent after they were lost, not part of the result: 4"
    points = reading.get_run(master.api, run).json["acc @ 0"]
    late = [point["value"] for point in points if "added" in point]
    assert late == ["99.5", "99.6"]
    assert master.api.simulate_get(f"/api/runs/{run.id}/result").json == result
    row, rank = reload(run), Rank.get(run=run, rank=0)
    assert (row.archive_sha256, row.delivery, rank.lost) == (digest, run.delivery, "it was silent")
    verified = master.verify(run)
    assert (verified["problems"], verified["added"]["of_lost_ranks"]) == ([], 4)
    with opened(master.folder / row.added["archive"]) as archive:
        assert sorted(map(str, archive.series)) == ["acc @ 0", "malformed @ 0", "note @ 0"]


@pytest.mark.parametrize("state", ["STARTED", "FAILED"])
def test_logs_and_files_of_a_lost_rank_are_accepted(master: Master, run: Run, state: str) -> None:
    Run.update(state="STARTED").execute()
    assert ship(master, run, b"before\n", "stdout").status_code == 200
    lose(run)
    Run.update(state=state).execute()
    for _ in range(2):
        assert ship(master, run, b"after\n", "stdout", offset=7).json["offset"] == 13
    log = master.api.simulate_get(f"/api/runs/{run.id}/logs").json
    assert (log["text"], log["complete"]) == ("before\nafter\n", True)
    digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    pack = OutputList("/out", (OutputFile("a.txt", 5, digest),), 0).line() + b"hello"
    assert ship(master, run, pack, "files").json["offset"] == len(pack)
    [file] = master.api.simulate_get(f"/api/runs/{run.id}/files").json
    assert (file["name"], file["sha256"]) == ("a.txt", digest)


def test_ended_attempts_accept_samples_of_a_lost_rank(master: Master, run: Run) -> None:
    lose(run)
    Run.update(state="STARTED", attempt=2, finished_at=None).execute()
    data = line(time.time(), acc=1.0)
    assert ship(master, run, data, offset=held(run)).status_code == 200
    master.recording.run_all()
    assert reload(run).added["of_lost_ranks"] == 1
    assert ship(master, run, data, rank=1).status_code == 409


def test_other_pods_and_imported_runs_accept_nothing(master: Master, run: Run) -> None:
    assert ship(master, run, b"a\n").status_code == 409
    lose(run, pod_uid="another")
    assert ship(master, run, b"a\n").status_code == 409
    lose(run, pod_uid=None)
    Run.update(origin={"installation": "", "run_id": 1, "imported_at": 1.0}).execute()
    assert ship(master, run, b"a\n").status_code == 409
    assert not Stream.select().where(Stream.owner == added_owner(run.id)).exists()


def test_an_external_job_that_has_ended_says_how_much_was_refused(master: Master, run: Run) -> None:
    lose(run)
    Run.update(state="STARTED", launcher="slurm").execute()
    data = line(time.time(), acc=1.0)
    assert ship(master, run, data, offset=held(run)).status_code == 200
    Run.update(state="FAILED").execute()
    for _ in range(2):
        assert ship(master, run, b"1234567", "stdout", offset=0).status_code == 409
    missing = master.api.simulate_get(f"/api/runs/{run.id}").json["not_recorded"]
    assert (missing["text"], missing["refused_bytes"]) == ("7 bytes of lost ranks", 7)
