"""Runs are sealed, once and whole, and read from their archives an hour later."""

import os
import shutil
import time
from typing import Any

import pytest

from mlbench import archive
from mlbench.archive import SeriesName, opened
from mlbench_master.archives.sealing import Sealer
from mlbench_master.database.models import Run
from mlbench_master.recording import streams
from mlbench_master.runs import deletion, lifecycle
from tests.master.archives.conftest import POD, Master
from tests.support import reading
from tests.support.disks import fill, small_disk
from tests.support.killing import killed_at
from tests.support.known import known
from tests.support.rows import key, line, make_run, record, reload

_SELECTIONS: list[dict[str, Any]] = [
    {},
    {"format": "csv"},
    {"summarize": 7},
    {"last_n": 3},
    {"metric_filter": ["acc @ 1", "note"], "since": "2018-08-03T09:21:29Z"},
    {"metric_filter": "b"},
]


def answers(master: Master, run: Run) -> list[object]:
    """Return what the API tells of a run, by all ways that read its samples."""
    api = master.api
    contents: list[object] = [reading.get_run(api, run, **each).content for each in _SELECTIONS]
    contents.append(reading.get(api, metric_type="run").content)
    contents.append(reading.opened(reading.get_run(api, run, format="zip")))
    contents.append(api.simulate_get(f"/api/runs/{run.id}/result", params={"price": 0.5}).json)
    contents.append(api.simulate_get("/api/compare", params={"runs": run.id}).json)
    return contents


def test_an_archive_answers_the_same_as_the_blocks_before(master: Master, run: Run) -> None:
    before = answers(master, run)
    assert not master.sealer.turn()
    sealed = reload(run)
    assert sealed.archive == f"made-{run.id}.mlbench"
    with opened(master.folder / sealed.archive) as file:
        assert (file.check(), file.digest) == ([], sealed.archive_sha256)
    assert answers(master, run) == before
    assert (sealed.figures or {})["metrics"] == {
        "acc": {"min": 0, "max": 799 / 8, "last": 799 / 8},
        "train_seconds": {"min": 0, "max": 799 / 30, "last": 799 / 30},
        "b": {"min": 1, "max": 2, "last": 1},
    }
    master.delete_blocks()
    assert answers(master, run) == before
    master.server.kill()
    assert answers(master, run) == before


def test_a_target_that_is_set_late_may_have_been_reached_before(master: Master, run: Run) -> None:
    unknown = Run.update(target_reached_at=None, target_train_seconds=None)
    unknown.where(Run.id == run.id).execute()
    master.sealer.turn()
    sealed = reload(run)
    assert sealed.target_reached_at == pytest.approx(known(run.target_reached_at))
    assert sealed.target_train_seconds == run.target_train_seconds


def test_logs_are_sealed_if_wished(master: Master, run: Run) -> None:
    for data in (b"a" * 10, b"\xff\n"):
        stream = key(run, 1, "stderr")
        streams.append(stream, streams.append(stream, 0, b""), data)
    Sealer(master.sealer.reader, with_logs=True).turn()
    with opened(master.folder / str(reload(run).archive)) as found:
        assert found.texts() == ["logs/1/1.stderr"]
        assert found.text("logs/1/1.stderr") == b"a" * 10 + b"\xff\n"
        assert found.check() == []


def test_sealing_again_writes_the_same(master: Master, run: Run) -> None:
    written = set()
    for _ in range(2):
        Run.update(sealed_at=None).execute()
        assert not master.sealer.turn()
        written.add((master.folder / f"made-{run.id}.mlbench").read_bytes())
        assert reload(run).archive_bytes == len(max(written))
        master.server.lose_everything()
    assert len(written) == 1


def test_a_sealer_that_is_killed_leaves_nothing_that_counts(master: Master, run: Run) -> None:
    for step in ("result_of", "archive.write", "exclusive"):
        with killed_at(f"mlbench_master.archives.sealing.{step}"):
            master.sealer.turn()
        assert reload(run).archive is None
    master.sealer.turn()
    assert [file.name for file in master.folder.iterdir()] == [reload(run).archive]


def test_a_failure_is_shown_and_tried_again(master: Master) -> None:
    run, other = master.make_ended(), master.make_ended("other")
    master.folder.write_text("no folder")
    assert master.sealer.turn()
    problem = master.api.simulate_get(f"/api/runs/{run.id}").json["archive_problem"]
    assert str(master.folder) in problem
    assert problem.endswith("it is tried again")
    assert "mlbench_unsealed_runs 2" in master.api.simulate_get("/metrics").text
    master.folder.unlink()
    assert not master.sealer.turn()
    assert [reload(sealed).archive_problem for sealed in (run, other)] == ["", ""]


def test_a_disk_that_fills_during_sealing_costs_nothing(master: Master, run: Run) -> None:
    before = answers(master, run)
    with small_disk(master.folder, 1 << 20):
        filler = fill(master.folder)
        os.truncate(filler, filler.stat().st_size - (8 << 10))
        assert master.sealer.turn()
        assert "No space left on device" in reload(run).archive_problem
        assert list(master.folder.iterdir()) == [filler], "no half is left"
        assert answers(master, run) == before
        filler.unlink()
        assert not master.sealer.turn()
        assert reload(run).archive_problem == ""
        assert master.verify(reload(run))["problems"] == []
        master.delete_blocks()
        assert answers(master, run) == before


def test_without_prometheus_a_run_is_sealed_without_usage(master: Master, run: Run) -> None:
    master.server.kill()
    assert not master.sealer.turn()
    missing = "2 pods whose resource usage Prometheus did not return"
    for path in ("", "/manifest"):
        described = master.api.simulate_get(f"/api/runs/{run.id}{path}").json["not_recorded"]
        assert (described["text"], described["pods_without_usage"]) == (missing, 2)
    with opened(master.folder / str(reload(run).archive)) as archive:
        assert archive.check() == []
        assert archive.document("run.json")["manifest"]["not_recorded"]["text"] == missing
        sealed = {name: series.samples + series.kept for name, series in archive.series.items()}
    assert sum(sealed.values()) == 3206, "all samples of the run, none of the usage"
    digest = reload(run).archive_sha256
    master.server.start()
    Run.update(sealed_at=None).execute()
    assert not master.sealer.turn()
    assert reload(run).archive_sha256 == digest, "whoever has the archive can check it"


def test_missing_usage_is_sealed_if_the_archive_waits(master: Master, run: Run) -> None:
    master.server.kill()
    master.folder.write_text("no folder")
    assert master.sealer.turn()
    master.folder.unlink()
    master.server.start()
    assert not master.sealer.turn()
    assert master.api.simulate_get(f"/api/runs/{run.id}").json["not_recorded"] is None
    with opened(master.folder / str(reload(run).archive)) as archive:
        assert {name.pod for name in archive.series} == {"", POD}


def test_samples_that_prometheus_lacks_are_sealed(master: Master, run: Run) -> None:
    master.server.lose_everything()
    record(run, line(known(run.finished_at), last=1))
    assert not master.sealer.turn()
    assert reload(run).archive is None, "it is sealed once, with its last line"
    master.recording.index_all()
    assert not master.sealer.turn()
    digest = reload(run).archive_sha256
    with opened(master.folder / str(reload(run).archive)) as archive:
        sealed = {name: series.samples + series.kept for name, series in archive.series.items()}
    assert sum(samples for name, samples in sealed.items() if not name.pod) == 3207
    assert sealed[SeriesName("last", "0")] == 1
    master.recording.export_all()
    assert not master.sealer.turn()
    assert reload(run).archive_sha256 == digest


def test_a_missing_archive_is_reported(master: Master, run: Run) -> None:
    master.sealer.turn()
    shutil.rmtree(master.folder)
    assert reading.get_run(master.api, run).status_code == 200
    master.delete_blocks()
    answer = reading.get_run(master.api, run)
    assert answer.status_code == 502
    assert f"made-{run.id}.mlbench" in answer.json["message"]


def test_archives_go_with_their_runs_and_after_some_days(master: Master) -> None:
    kept, deleted, old, late = map(master.make_ended, ("kept", "deleted", "old", "late"))
    master.sealer.turn()
    lifecycle.delete(reload(deleted))
    assert not deletion.sweep(), "its archive comes first"
    Run.update(finished_at=time.time() - 2 * 86_400).where(Run.id << [old.id, late.id]).execute()
    Run.update(shipped_at=time.time()).where(Run.id == late.id).execute()
    Sealer(master.sealer.reader, days=1).turn()
    left = {file.name for file in master.folder.iterdir()}
    assert left == {reload(kept).archive, reload(late).archive}
    assert (reload(old).archive, reload(old).archive_bytes) == (None, None)
    while deletion.sweep():
        pass


def test_sealed_and_active_runs_are_skipped(
    master: Master, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    master.sealer.turn()
    make_run()
    monkeypatch.setattr(archive, "write", None)
    assert not master.sealer.turn()
    assert reload(run).archive_problem == ""


def test_secrets_of_a_command_are_hidden_everywhere(master: Master) -> None:
    command = "python train.py --token hunter3 --lr 0.1"
    run = master.make_ended()
    own = {"benchmark": "", "command": command, "image": "local"}
    Run.update(own).where(Run.id == run.id).execute()
    assert not master.sealer.turn()
    paths = ("/api/runs/", f"/api/runs/{run.id}", f"/api/runs/{run.id}/manifest")
    told = [master.api.simulate_get(path).text for path in paths]
    for path, name in (("/api/runs/", "columns"), ("/api/runs/groups/", "group")):
        told.append(master.api.simulate_get(path, params={name: "command"}).text)
    told.append(master.api.simulate_get("/api/compare", params={"runs": run.id}).text)
    with opened(master.folder / f"made-{run.id}.mlbench") as file:
        told += [file.text(name).decode() for name in file.members]
    assert all("hunter3" not in text for text in told)
    assert [text for text in told if "--token '***' --lr 0.1" in text]
    assert reload(run).command == command, "what the workers run"
