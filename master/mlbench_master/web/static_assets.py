"""Static files: kept in memory, compressed once, at URLs that change with their content."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import falcon
from falcon import Request, Response

from mlbench.report.page import imports_of
from mlbench_master.http.access import Access
from mlbench_master.http.bodies import accepts_gzip

_FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
    ".html": "text/html; charset=utf-8",  # speedscope, in frames of pages
}
_FRAMED = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self'; connect-src 'self' blob:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'"
)


@dataclass(frozen=True)
class Asset:
    """A static file."""

    content: bytes
    content_type: str

    @cached_property
    def compressed(self) -> bytes:
        """Content, compressed with gzip."""
        return gzip.compress(self.content, mtime=0)


@dataclass(frozen=True)
class Assets:
    """All static files by path."""

    files: Mapping[str, Asset]

    @cached_property
    def version(self) -> str:
        """Hash of all files."""
        digest = hashlib.sha256()
        for path, asset in sorted(self.files.items()):
            digest.update(f"{path}\0{len(asset.content)}\0".encode())
            digest.update(asset.content)
        return digest.hexdigest()[:16]

    def modules_of(self, path: str) -> list[str]:
        """Return the path of a JavaScript module, then the paths of all its imports."""
        modules = [path]
        for module in modules:  # grows in the loop
            imports = imports_of(module, self.files[module].content.decode())
            modules.extend(path for path in dict.fromkeys(imports) if path not in modules)
        return modules

    @property
    def prefix(self) -> str:
        """Common prefix of the files' URLs, without a slash at the end."""
        return f"/static/{self.version}"


@cache
def load() -> Assets:
    """Read the static files of a type that pages load."""
    paths = (path for path in _FOLDER.rglob("*") if path.suffix in _TYPES)
    return Assets(
        {
            path.relative_to(_FOLDER).as_posix(): Asset(path.read_bytes(), _TYPES[path.suffix])
            for path in paths
        }
    )


@dataclass(frozen=True)
class StaticResource:
    """``/static/{version}/{path}``: a static file, which browsers may cache forever."""

    assets: Assets
    access: Access = "open"

    def on_get(self, req: Request, resp: Response, version: str, path: str) -> None:
        """Return the file."""
        asset = self.assets.files.get(path)
        if asset is None or version != self.assets.version:
            raise falcon.HTTPNotFound(description="file not found in this version")
        resp.content_type = asset.content_type
        resp.set_header("Cache-Control", "public, max-age=31536000, immutable")
        if asset.content_type == _TYPES[".html"]:
            resp.set_header("Content-Security-Policy", _FRAMED)
        resp.append_header("Vary", "Accept-Encoding")
        if accepts_gzip(req.get_header("Accept-Encoding", default="")):
            resp.set_header("Content-Encoding", "gzip")
            resp.data = asset.compressed
        else:
            resp.data = asset.content
