"""Missing samples and damaged archives are found."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from typer.testing import CliRunner

from mlbench import archive
from mlbench.archive import ROWS, RUN, Archive, opened
from mlbench.cli import app
from mlbench.evaluation.verification import check, context_of, recompute
from mlbench_master.archives import verifying
from mlbench_master.controller import sample_verification
from mlbench_master.database.models import Run
from mlbench_master.reading.counting import SampleCounts, count
from tests.master.archives.conftest import Master
from tests.support.known import known
from tests.support.rows import reload


@pytest.fixture
def sealed(master: Master) -> Run:
    run = master.make_ended()
    master.sealer.turn()
    return reload(run)


def test_samples_that_prometheus_lost_are_reported(
    master: Master, sealed: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert master.verify(sealed)["problems"] == []
    master.server.lose_everything()
    monkeypatch.setattr(sample_verification, "_MAX_RESENDS", 0)
    master.delete_blocks()
    [problem] = master.verify(sealed)["problems"]
    counts = "3206 recorded, 0 in Prometheus, 5 in the record only"
    assert problem == f"Prometheus lacks samples: {counts}"


def test_title_tags_and_note_are_not_sealed(master: Master, sealed: Run) -> None:
    words = {"title": "Another", "tags": ["paper"], "note": "Changed after its end."}
    assert master.api.simulate_patch(f"/api/runs/{sealed.id}/", json=words).status_code == 200
    assert master.verify(sealed)["problems"] == []
    # Sealed anew, the archive is the same; it has the digest of an earlier one, if there is one.
    Run.update(archive_sha256=None).execute()
    master.sealer.seal(reload(sealed))
    again = reload(sealed)
    assert (again.archive_sha256, again.note) == (sealed.archive_sha256, words["note"])


def test_a_flipped_byte_is_found(master: Master, sealed: Run) -> None:
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


def test_an_archive_is_verified_while_it_is_written_again(
    master: Master, sealed: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "_REWRITTEN_SECONDS", 10.0)
    Run.update(archive_sha256="of the one before").where(Run.id == sealed.id).execute()

    def end_writing() -> None:
        time.sleep(0.2)
        Run.update(archive_sha256=sealed.archive_sha256).where(Run.id == sealed.id).execute()

    with ThreadPoolExecutor() as pool:
        ended = pool.submit(end_writing)
        assert master.verify(sealed)["problems"] == []
        ended.result()


def test_a_damaged_archive_is_reported_while_samples_arrive(
    master: Master, sealed: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "_REWRITTEN_SECONDS", 0.5)
    Run.update(archive_sha256="of another one").where(Run.id == sealed.id).execute()
    is_told = Event()

    def add_samples() -> bool:
        for samples in range(80):
            added = {"samples": samples, "first_at": 1.0, "last_at": 2.0}
            Run.update(added=added).where(Run.id == sealed.id).execute()
            if is_told.wait(0.1):
                return True
        return False

    with ThreadPoolExecutor() as pool:
        was_told = pool.submit(add_samples)
        problems = master.verify(sealed)["problems"]
        is_told.set()
        assert was_told.result(), "the answer waited until no more samples came"
    assert problems == [f"{sealed.archive} is not the archive that was written"]


def test_a_run_without_an_archive_is_reported(master: Master) -> None:
    assert master.verify(master.make_ended())["problems"] == ["it is not sealed yet: ask again"]


def test_an_archive_alone_can_be_verified(master: Master, sealed: Run, tmp_path: Path) -> None:
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


@pytest.mark.slow
def test_samples_of_an_archive_become_blocks_of_prometheus(master: Master, sealed: Run) -> None:
    whole = SampleCounts(**known(sealed.delivery))
    file, data = master.folder / str(sealed.archive), master.server.folder / "data"
    master.server.lose_everything()
    assert count(master.prometheus, sealed).lost == whole.in_prometheus
    for _ in range(2):
        result = CliRunner().invoke(app, ["verify", str(file), "--blocks", str(data)])
        assert result.exit_code == 0, result.output
        assert f"{whole.in_prometheus:,} samples were written" in result.output
        master.server.kill()
        master.server.start()
        assert count(master.prometheus, sealed) == whole
