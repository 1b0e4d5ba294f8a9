"""Bodies of requests, and JSON responses.

An invalid body raises an error whose message names the field. Its status code is 400, or 413 for a
body that is too large, or 415 for a compressed one.
"""

import re
import zlib
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from http import HTTPStatus
from typing import Any, BinaryIO, TypeVar
from urllib.parse import parse_qsl, quote

import falcon
import orjson
from falcon import Request, Response
from falcon.media import JSONHandler

from mlbench.contract.conversion import convert
from mlbench_master import exact_json
from mlbench_master.errors import BadFieldError

_MAX_BODY_BYTES = 1 << 20
_PIECE_BYTES = 64 << 10
# Characters that must be escaped in the file name of a header: RFC 6266, appendix D.
_UNSAFE = re.compile(r"[^ !#$&-\[\]-~]")
JAVASCRIPT = "text/javascript"
"""Content type of JSON, if a client asks for it."""

_Model = TypeVar("_Model")


def offer_file(resp: Response, name: str) -> None:
    """Offer the response as a download with a file name, which may have any characters."""
    simple = _UNSAFE.sub("_", name)
    exact = "" if simple == name else f"; filename*=UTF-8''{quote(name, safe='')}"
    resp.set_header("Content-Disposition", f'attachment; filename="{simple}"{exact}')


def read_body(req: Request, model: type[_Model]) -> _Model:
    """Parse the body, a JSON object or a form, as a model."""
    fields = _read_fields(req, _MAX_BODY_BYTES)
    if not isinstance(fields, dict):
        raise BadFieldError("body", "must be a JSON object")
    return convert(model, fields)


def read_bodies(req: Request, model: type[_Model], most: int) -> list[_Model] | _Model:
    """Parse the body as a model, or as a list of at most ``most`` models."""
    fields = _read_fields(req, 16 << 20)
    if isinstance(fields, dict):
        return convert(model, fields)
    if not isinstance(fields, list):
        raise BadFieldError("body", "must be a JSON object or a list of JSON objects")
    if not 0 < len(fields) <= most:
        raise BadFieldError("body", f"a list must have 1 to {most} entries (got {len(fields)})")
    return convert(list[model], fields)  # type: ignore[valid-type]


def _read_fields(req: Request, limit: int) -> Any:
    """Parse the body, JSON of at most ``limit`` bytes or a form. No body is an empty object."""
    kind = (req.content_type or "").partition(";")[0].strip().lower()
    if kind != falcon.MEDIA_URLENCODED:
        return read_json(req, limit)
    # MLBench's original client sends forms.
    try:
        text = read_bytes(req, _MAX_BODY_BYTES).decode()
        if text.startswith(("{", "[")):
            raise BadFieldError("body", "JSON needs the header Content-Type: application/json")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise BadFieldError("body", f"must be a form in UTF-8: {error}") from None
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise BadFieldError("body", "a field is given twice")
    return fields


def read_json(req: Request, limit: int) -> Any:
    """Parse the body, JSON of at most ``limit`` bytes. No body is an empty object."""
    try:
        return exact_json.loads(read_bytes(req, limit) or b"{}")
    except (ValueError, RecursionError) as error:
        raise BadFieldError("body", f"must be JSON: {error}") from None


def read_bytes(req: Request, limit: int) -> bytes:
    """Return the raw body, of at most ``limit`` bytes."""
    encoding = req.get_header("Content-Encoding", default="identity")
    if encoding.lower() != "identity":
        raise falcon.HTTPUnsupportedMediaType(
            description=f"Content-Encoding: must be identity (got {encoding!r}). Send the body "
            "uncompressed.",
            headers={"Accept-Encoding": "identity"},
        )
    announced, stream = req.content_length or 0, _stream(req)
    body: bytes = stream.read(limit + 1) if announced <= limit else b""
    if max(len(body), announced) > limit:
        if announced <= 2 * limit:
            # Read the rest. Otherwise the connection is reset before the client, which is still
            # sending, reads the response.
            for _ in range(2 * limit // _PIECE_BYTES):
                if not stream.read(_PIECE_BYTES):
                    break
        raise _too_large(limit)
    return body


def read_to_file(req: Request, file: BinaryIO, limit: int) -> None:
    """Write the raw body, of at most ``limit`` bytes, to a file."""
    stream = _stream(req)
    remaining = limit if (req.content_length or 0) <= limit else -1
    while remaining >= 0 and (piece := stream.read(_PIECE_BYTES)):
        remaining -= len(piece)
        file.write(piece)
    if remaining < 0:
        raise _too_large(limit)


def _too_large(limit: int) -> falcon.HTTPContentTooLarge:
    size = f"{limit / (1 << 20):.4g} MiB"
    return falcon.HTTPContentTooLarge(description=f"body: must be at most {size}")


def _stream(req: Request) -> Any:
    # Chunked bodies have no announced length.
    chunked = req.content_length is None and req.get_header("Transfer-Encoding")
    return req.stream if chunked else req.bounded_stream


def write_json(app: falcon.App[Request, Response]) -> None:
    """Make the app write JSON and records as ``application/json`` or ``text/javascript``."""
    handler = JSONHandler(dumps=orjson.dumps, loads=orjson.loads)
    app.resp_options.media_handlers.update({falcon.MEDIA_JSON: handler, JAVASCRIPT: handler})
    app.add_middleware(AnswerMiddleware())


class AnswerMiddleware:
    """Adds security headers to responses, and validates or compresses JSON (ETag, gzip)."""

    def process_response(
        self, req: Request, resp: Response, resource: object, req_succeeded: bool
    ) -> None:
        """Forbid browsers to guess content types, and to cache, unless a response allows it.

        A cached response would still be readable after signing out. Pages on other ports of this
        host belong to the same site and send the session, so they must not load our responses.
        """
        resp.set_header("X-Content-Type-Options", "nosniff")
        resp.set_header("Cross-Origin-Resource-Policy", "same-origin")
        if resp.get_header("Cache-Control") is None:
            resp.set_header("Cache-Control", "no-store")
        allowed = resp.get_header("Allow")
        if allowed and "GET" in allowed:
            resp.set_header("Allow", f"{allowed}, HEAD")
        if (resp.content_type or falcon.MEDIA_JSON).startswith(falcon.MEDIA_JSON):
            resp.append_header("Vary", "Accept")
            if JAVASCRIPT in req.accept:
                resp.content_type = JAVASCRIPT
        if req.method != "GET" or resp.media is None or resp.status_code != HTTPStatus.OK:
            return
        body = resp.render_body() or b""
        tag = f'W/"{blake2b(body, digest_size=12).hexdigest()}"'
        resp.set_header("ETag", tag)
        if tag in req.get_header("If-None-Match", default=""):
            resp.status, resp.media = falcon.HTTP_304, None
            resp.delete_header("Content-Type")
        elif len(body) >= 1400:  # bytes; smaller responses fit into one packet
            resp.data = b"".join(compressed(req, resp, [body]))


def compressed(req: Request, resp: Response, pieces: Iterable[bytes]) -> Iterable[bytes]:
    """Return the pieces of a response, compressed if the client accepts gzip."""
    if not accepts_gzip(req.get_header("Accept-Encoding", default="")):
        return pieces
    resp.append_header("Vary", "Accept-Encoding")
    resp.set_header("Content-Encoding", "gzip")

    def compress() -> Iterator[bytes]:
        compressor = zlib.compressobj(level=1, wbits=31)  # 31: with the header of gzip
        for piece in pieces:
            if data := compressor.compress(piece):
                yield data
        yield compressor.flush()

    return compress()


def accepts_gzip(header: str) -> bool:
    """Check if an Accept-Encoding header names gzip with a quality above 0."""
    for encoding in header.split(","):
        name, _, quality = encoding.partition(";")
        if name.strip().lower() == "gzip":
            return quality.replace(" ", "").lower().rstrip("0") not in {"q=", "q=0."}
    return False
