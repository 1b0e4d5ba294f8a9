"""Static files: their types, compression and versions."""

import gzip
from collections.abc import Mapping

import pytest
from falcon.testing import Result, TestClient

from mlbench_master.http.bodies import accepts_gzip
from mlbench_master.web.static_assets import Asset, Assets, load

_ACCEPTED = ("gzip", "deflate, GZIP;q=1.0, br", "gzip;q=0.01")
_NOT_ACCEPTED = ("", "gzip;q=0", "br, gzip ; q=0.000", "identity", "xgzip")


def ask(browser: TestClient, path: str, headers: Mapping[str, str] | None = None) -> Result:
    return browser.simulate_get(f"{load().prefix}/{path}", headers=dict(headers or {}))


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("style.css", "text/css; charset=utf-8"),
        ("js/api.js", "text/javascript; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
        ("vendor/uPlot.esm.js", "text/javascript; charset=utf-8"),
        ("vendor/speedscope/index.html", "text/html; charset=utf-8"),
    ],
)
def test_a_file_is_plain_or_compressed(browser: TestClient, path: str, content_type: str) -> None:
    plain, packed = ask(browser, path), ask(browser, path, {"Accept-Encoding": "br, gzip"})
    assert plain.status_code == packed.status_code == 200
    assert plain.content == gzip.decompress(packed.content) == load().files[path].content
    assert len(packed.content) < len(plain.content)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    for answer in (plain, packed):
        assert answer.headers["Content-Type"] == content_type
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert answer.headers["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    "path", ["nothing.js", "js", "js/", "", "../pages.py", "js/../style.css", "%2e%2e/pages.py"]
)
def test_other_paths_and_versions_are_not_found(browser: TestClient, path: str) -> None:
    assert ask(browser, path).status_code == 404
    assert browser.simulate_get("/static/0123456789abcdef/style.css").status_code == 404


def test_accept_encoding_is_parsed() -> None:
    assert all(map(accepts_gzip, _ACCEPTED))
    assert not any(map(accepts_gzip, _NOT_ACCEPTED))


def test_every_change_results_in_another_version() -> None:
    def version(**files: bytes) -> str:
        return Assets({name: Asset(content, "") for name, content in files.items()}).version

    several = [version(a=b"1"), version(a=b"2"), version(b=b"1"), version(a=b"1", b=b"")]
    assert len({*several}) == len(several)
    assert version(a=b"1", b=b"2") == version(b=b"2", a=b"1")


def test_a_page_preloads_all_imported_modules() -> None:
    script = (
        b'import uPlot from "../vendor/u.js";\nimport {\n  a,\n} from "./a.js";\n'
        b'import * as b from "./c/b.js";\n/** @typedef {import("./no.js").No} No */\n'
    )
    contents = {
        "js/main.js": script,
        "js/a.js": b"",
        "js/c/b.js": b'import { a } from "../a.js";\nconst text = "./no.js";\n',
        "vendor/u.js": b"",
    }
    assets = Assets({path: Asset(content, "") for path, content in contents.items()})
    assert assets.modules_of("js/main.js") == ["js/main.js", "vendor/u.js", "js/a.js", "js/c/b.js"]
