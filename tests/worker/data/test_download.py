"""A file is downloaded once, and only the right one is kept."""

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from worker.data.download import ensure_file, sha256_of
from worker.data.folder import DataError

_CONTENT = bytes(range(256)) * 10_000
_SHA256 = hashlib.sha256(_CONTENT).hexdigest()


class _Site(BaseHTTPRequestHandler):
    """Has ``/file``, and ``/cut``, which ends in the middle."""

    asked: list[str] = []  # noqa: RUF012 - of the one server of a test

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path not in ("/file", "/cut"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(_CONTENT)))
        self.end_headers()
        self.wfile.write(_CONTENT if self.path == "/file" else _CONTENT[:1000])

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def site() -> Iterator[str]:
    _Site.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_it_is_downloaded_once_for_all(site: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: ensure_file(path, f"{site}/file", _SHA256), range(4)))
    assert path.read_bytes() == _CONTENT
    assert sha256_of(path) == _SHA256
    assert _Site.asked == ["/file"]
    assert {left.name for left in path.parent.iterdir()} == {"file", "file.lock"}


def test_what_is_there_stays(site: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    ensure_file(path, f"{site}/file", _SHA256)
    assert path.read_text() == "mine"
    assert _Site.asked == []


def test_the_wrong_file_is_refused(site: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(DataError, match=f"its SHA-256 is {_SHA256}, not 00ff"):
        ensure_file(path, f"{site}/file", "00ff")
    assert {left.name for left in tmp_path.iterdir()} == {"file.lock"}


@pytest.mark.parametrize(("what", "said"), [("missing", "HTTP Error 404"), ("cut", "SHA-256")])
def test_what_does_not_come_is_told(what: str, said: str, site: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        ensure_file(tmp_path / "file", f"{site}/{what}", _SHA256)
    assert not (tmp_path / "file").exists()
