"""Reading a request: query parameters and bodies, with errors that name the field."""

import json
from typing import TypeVar

import falcon
from falcon import Request
from pydantic import BaseModel

from master import times
from master.errors import BadFieldError

# The largest body of a request that is no stream.
MAX_BODY_BYTES = 1 << 20
# More do not fit a database's 64 bits.
_MAX_DIGITS = 18

_Model = TypeVar("_Model", bound=BaseModel)


def read_body(req: Request, model: type[_Model]) -> _Model:
    """Return the JSON body as a model.

    Raises:
        falcon.HTTPBadRequest: the body is no JSON object, or a field is wrong.
        falcon.HTTPContentTooLarge: the body is too large (413).
    """
    try:
        fields = json.loads(read_bytes(req, MAX_BODY_BYTES) or b"{}")
        # JSON can spell half of a character pair, which is no text.
        json.dumps(fields, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise BadFieldError("body", f"it must be JSON: {error}") from None
    if not isinstance(fields, dict):
        raise BadFieldError("body", "it must be a JSON object")
    return model.model_validate(fields)


def read_bytes(req: Request, limit: int) -> bytes:
    """Return the raw body.

    Raises:
        falcon.HTTPContentTooLarge: it is longer than ``limit`` (413).
    """
    if (req.content_length or 0) > limit:
        raise _too_large(limit)
    body: bytes = req.bounded_stream.read(limit + 1)
    if len(body) > limit:
        raise _too_large(limit)
    return body


def choice(req: Request, name: str, allowed: tuple[str, ...], default: str) -> str:
    """Return a query parameter that has few possible values.

    Raises:
        BadFieldError: it has another one.
    """
    value = req.get_param(name) or default
    if value not in allowed:
        raise BadFieldError(name, f"one of {', '.join(allowed)} (not {value!r})")
    return value


def whole_number(req: Request, name: str, default: int | None = None) -> int | None:
    """Return a query parameter that is a whole number, 0 or more.

    Raises:
        BadFieldError: it is something else.
    """
    text = req.get_param(name)
    if text is None:
        return default
    number = parse_whole_number(text)
    if number is None:
        raise BadFieldError(name, f"a whole number, 0 or more (not {text!r})")
    return number


def parse_whole_number(text: str) -> int | None:
    """Return the whole number that a text spells; nothing for any other text, or a huge one."""
    plain = text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS
    return int(text) if plain else None


def moment(req: Request, name: str) -> int:
    """Return a query parameter that is a time, in microseconds since 1970; 0 where it is absent.

    Raises:
        BadFieldError: it is no time.
    """
    text = req.get_param(name)
    if not text:
        return 0
    try:
        return times.parse(text)
    except ValueError:
        raise BadFieldError(name, f"a time like 2018-08-03T09:21:29.347Z (not {text!r})") from None


def _too_large(limit: int) -> falcon.HTTPContentTooLarge:
    return falcon.HTTPContentTooLarge(description=f"body: at most {limit} bytes")
