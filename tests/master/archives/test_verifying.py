"""What Prometheus lost, and what was damaged, is found; what Prometheus lost is restored."""

import json
import shutil
import time
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from mlbench import archive
from mlbench.archive import ROWS, RUN, Archive, opened
from mlbench.cli import app
from mlbench.evaluation.verification import check, context_of, recompute
from mlbench_master.database.models import Run
from tests.conftest import PrometheusServer
from tests.master.archives.conftest import Master
from tests.support.rows import reload

_DAY = 86_400.0


@pytest.fixture
def sealed(master: Master) -> Run:
    run = master.make_ended()
    master.sealer.turn()
    return reload(run)


def lose_a_series(server: PrometheusServer, run: Run, metric: str) -> None:
    """Delete a series, as Prometheus's own API does."""
    server.kill()
    server.start("--web.enable-admin-api")
    selector = f'{{run_id="{run.id}",metric="{metric}"}}'
    deleting = f"{server.url}/api/v1/admin/tsdb/delete_series"
    assert httpx.post(deleting, params={"match[]": selector}).status_code == 204


def test_what_prometheus_lost_is_found_and_restored(master: Master, sealed: Run) -> None:
    assert master.verify(sealed)["problems"] == []
    lose_a_series(master.server, sealed, "acc")
    missing = [f"Prometheus has 0 of the 800 samples of series acc @ {rank}" for rank in (0, 1)]
    assert master.verify(sealed)["problems"] == missing
    # Prometheus takes no sample twice whose deletion it remembers: an empty one does.
    master.server.lose_everything()
    assert len(master.verify(sealed)["problems"]) == 5
    found = master.verify(sealed, restore="true")
    assert (found["problems"], found["restored"]) == ([], 3201)


def test_words_of_ones_own_are_no_part_of_what_is_sealed(master: Master, sealed: Run) -> None:
    words = {"title": "Another", "tags": ["paper"], "note": "Changed after its end."}
    assert master.api.simulate_patch(f"/api/runs/{sealed.id}/", json=words).status_code == 200
    assert master.verify(sealed)["problems"] == []
    # Sealed anew, the archive is the same; it has the digest of an earlier one, if there is one.
    Run.update(archive_sha256=None).execute()
    master.sealer.seal(reload(sealed))
    again = reload(sealed)
    assert (again.archive_sha256, again.note) == (sealed.archive_sha256, words["note"])


def test_another_value_in_prometheus_is_found(master: Master, sealed: Run) -> None:
    """Written into an empty Prometheus before the rest."""
    master.server.lose_everything()
    with opened(master.folder / str(sealed.archive)) as file:
        name = next(name for name in file.series if name.metric == "acc")
        [piece, *_] = file.read(name)
    labels = {"run_id": str(sealed.id), "metric": "acc", "rank": name.rank}
    series = {"__name__": "mlbench_run_metric", **labels}
    master.write(series, [(piece.times_us[7] // 1000, 5.0)])
    report = master.verify(sealed, restore="true")
    assert report["problems"] == [f"Prometheus has other samples of series {name}"]


def test_a_flipped_byte_is_found_and_sealed_over(master: Master, sealed: Run) -> None:
    file = master.folder / str(sealed.archive)
    whole = bytearray(file.read_bytes())
    whole[whole.index(b"PAR1") + 1000] ^= 1
    file.write_bytes(whole)
    problems = master.verify(sealed)["problems"]
    assert len(problems) == 1, "not one for each series"
    assert f"{file.name} is damaged: samples.parquet does not match its digest (" in problems[0]
    result = CliRunner().invoke(app, ["verify", str(file), "--json"])
    assert result.exit_code == 1
    [problem] = json.loads(result.stdout)["problems"]
    assert problem == str(file.parent / problems[0])
    assert master.verify(sealed, restore="true")["problems"][-1].startswith("it is sealed again")
    master.sealer.turn()
    assert master.verify(reload(sealed))["problems"] == []


def test_another_archive_in_its_place_is_found(master: Master, sealed: Run) -> None:
    other = master.make_ended("other")
    master.sealer.turn()
    (master.folder / str(reload(other).archive)).rename(master.folder / str(sealed.archive))
    [problem, *_] = master.verify(sealed)["problems"]
    assert problem == f"{sealed.archive} is not the archive that was written"


def test_a_run_without_archive_is_told(master: Master) -> None:
    assert master.verify(master.make_ended())["problems"] == ["it is not sealed yet: ask again"]


def test_an_archive_alone_gives_the_result_and_counts(
    master: Master, sealed: Run, tmp_path: Path
) -> None:
    path = master.folder / str(sealed.archive)
    result = CliRunner().invoke(app, ["verify", str(path)])
    assert (result.exit_code, result.stdout) == (0, "verified: nothing is missing or damaged\n")
    with opened(path) as file:
        assert recompute(file, context_of(file)).to_fields() == file.document(RUN)["result"]
        documents = {name: file.document(name) for name in (RUN, ROWS)}
        del documents[RUN]["result"]["accuracy_after_time"]  # as an older version had sealed it
        documents[RUN]["result"]["best_value"] = 99.5
        series = [(name, file.read(name)) for name in list(file.series)[1:]]
        archive.write(tmp_path / "forged", documents, series)
    with opened(tmp_path / "forged") as forged:
        assert _kinds(forged) == {"samples were recorded", "its samples give another result"}


def _kinds(found: Archive) -> set[str]:
    kinds = ("samples were recorded", "its samples give another result", "damaged")
    return {kind for kind in kinds for problem in check(found) if kind in problem}


def delete_a_block(data: Path) -> None:
    """Delete the largest block, and what others have of its time: the same may be there twice."""
    blocks = {path.parent: json.loads(path.read_text()) for path in data.glob("*/meta.json")}
    largest = max(blocks.values(), key=lambda one: int(one["stats"]["numSamples"]))
    for folder, one in blocks.items():
        if one["minTime"] < largest["maxTime"] and largest["minTime"] < one["maxTime"]:
            shutil.rmtree(folder)


@pytest.mark.slow
def test_what_retention_took_is_restored_as_blocks(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prometheus takes samples of that age in no other way, once it has newer ones."""
    monkeypatch.setattr("mlbench_master.recording.plan.PAST_MS", 10 * _DAY * 1000)
    run = master.make_ended(ago=3 * _DAY, apart=40.0)
    master.sealer.turn()
    run, data = reload(run), master.server.folder / "data"
    file, blocks = master.folder / str(run.archive), ["--blocks", str(data)]
    master.server.lose_everything()
    assert CliRunner().invoke(app, ["verify", str(file), *blocks]).exit_code == 0
    for retention, is_whole in (("10y", True), ("4h", False)):
        master.server.kill()
        master.server.start(f"--storage.tsdb.retention.time={retention}")
        assert (master.verify(run)["problems"] == []) == is_whole
    master.write({"__name__": "newer"}, [(time.time_ns() // 1_000_000, 1.0)])
    report = master.verify(run, restore="true")
    assert report["restored"] == 0
    assert CliRunner().invoke(app, ["verify", str(file), *blocks]).exit_code == 0
    master.server.kill()
    master.server.start("--storage.tsdb.retention.time=10y")
    assert master.verify(run)["problems"] == []
    master.server.kill()
    delete_a_block(data)
    master.server.start("--storage.tsdb.retention.time=10y")
    assert master.verify(run)["problems"] != []
    master.server.kill()
    assert CliRunner().invoke(app, ["verify", str(file), *blocks]).exit_code == 0
    master.server.start("--storage.tsdb.retention.time=10y")
    assert master.verify(run)["problems"] == []
