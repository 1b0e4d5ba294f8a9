"""Files of ranks are sealed with the run, and follow its archive."""

import hashlib
import json
from pathlib import Path

from mlbench import archive
from mlbench.archive import ROWS, RUN, opened
from mlbench.evaluation.verification import check
from mlbench_master.database.models import Chunk, Run
from mlbench_master.runs import lifecycle
from tests.master.archives.conftest import Master
from tests.support.rows import get_stream, key, reload, ship_files

FILES = {"plots/loss.csv": b"step,loss\n1,0.5\n", "empty": b""}


def seal(master: Master) -> Run:
    run = master.make_ended()
    ship_files(run, FILES, rank=1)
    master.sealer.turn()
    return reload(run)


def test_a_changed_file_is_found(master: Master) -> None:
    run = seal(master)
    assert master.verify(run)["problems"] == []
    last = Chunk.select().where(Chunk.stream == get_stream(key(run, 1, "files")))
    changed = last.order_by(Chunk.offset.desc()).get()
    Chunk.update(data=bytes(changed.data).replace(b"0.5", b"0.4")).where(
        Chunk.stream == changed.stream, Chunk.offset == changed.offset
    ).execute()
    [problem] = master.verify(run)["problems"]
    assert problem == "plots/loss.csv of rank 1 is not the file that its rank left"


def test_a_forged_list_of_files_is_found(master: Master, tmp_path: Path) -> None:
    run = seal(master)
    forged = tmp_path / "forged"
    with opened(master.folder / str(run.archive)) as found:
        documents = {name: found.document(name) for name in (RUN, ROWS)}
        texts = [(name, [found.text(name)]) for name in found.texts()]
        documents[RUN]["files"][0]["sha256"] = hashlib.sha256(b"another").hexdigest()
        archive.write(forged, documents, ((n, list(found.read(n))) for n in found.series), texts)
    with opened(forged) as found:
        assert check(found) == ["files/1/1/plots/loss.csv is not the file that it lists"]


def test_an_imported_run_has_its_files(master: Master) -> None:
    run = seal(master)
    path = f"/api/runs/{run.id}"
    listed = master.api.simulate_get(f"{path}/files").json
    content = master.api.simulate_get(f"{path}/archive").content
    lifecycle.delete(run)
    master.sealer.turn()
    imported = master.api.simulate_post("/api/archives/", body=content).json["run"]["id"]
    path = f"/api/runs/{imported}/files"
    assert json.loads(master.api.simulate_get(path).text) == listed
    for name, whole in FILES.items():
        answer = master.api.simulate_get(f"{path}/{name}", params={"rank": 1})
        assert answer.content == whole
    assert master.api.simulate_get(f"{path}/empty").status_code == 404, "rank 0"
