"""Archives in S3: a real server of its protocol, without Amazon's disks behind it."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mlbench.archive import ArchiveError
from mlbench_master.database.models import Run
from mlbench_master.runs import deletion, lifecycle
from tests.conftest import free_port, wait_for
from tests.master.archives.conftest import Master
from tests.support import reading
from tests.support.rows import reload


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """A folder of a bucket, on a server that the environment names."""
    server_command = os.environ.get("S3_SERVER")
    if not server_command:
        pytest.skip("$S3_SERVER is not set to what scripts/get-s3.sh prints")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "mlbench")
    command = [server_command, "-H", "127.0.0.1", "-p", str(port)]
    with (tmp_path / "s3.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_for(lambda: _answers(url), what="S3 answers")
        assert httpx.put(f"{url}/bucket").status_code == 200
        yield "s3://bucket/mlbench"
    finally:
        server.kill()
        server.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.HTTPError:
        return False


def test_a_run_is_sealed_read_and_deleted_there(master: Master, run: Run) -> None:
    before = reading.get_run(master.api, run).content
    assert not master.sealer.turn()
    master.delete_blocks()
    assert reading.get_run(master.api, run).content == before
    name = str(reload(run).archive)
    with master.sealer.reader.archives.open(name) as archive:
        assert archive.check() == []
    lifecycle.delete(reload(run))
    assert not master.sealer.turn()
    with pytest.raises(ArchiveError, match=name), master.sealer.reader.archives.open(name):
        pass
    while deletion.sweep():
        pass
