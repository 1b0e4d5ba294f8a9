"""Errors, and how the API answers them: JSON with ``status`` and ``message``, whatever it is."""

import logging

import falcon
from falcon import Request, Response
from peewee import InterfaceError, OperationalError, PeeweeException
from pydantic import ValidationError

from mlbench.errors import MLBenchError

log = logging.getLogger(__name__)


class BadFieldError(falcon.HTTPBadRequest):
    """A field of the request is wrong: 400, with a message that names it."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(description=f"{field}: {problem}")


class ServiceUnavailableError(MLBenchError):
    """Something cannot be done: 503 and Retry-After, or 502 where asking again does not help."""

    may_pass = True
    """Whether asking again may help."""


def install(app: falcon.App[Request, Response]) -> None:
    """Make every error of the app a JSON answer."""
    app.set_error_serializer(serialize)
    app.add_error_handler(ValidationError, _answer_validation)
    app.add_error_handler(ServiceUnavailableError, _answer_unavailable)
    app.add_error_handler(OperationalError, _answer_database)
    app.add_error_handler(InterfaceError, _answer_database)
    app.add_error_handler(Exception, _answer_unexpected)


def serialize(req: Request, resp: Response, error: falcon.HTTPError) -> None:
    """Answer with an error as JSON."""
    resp.media = {"status": error.status_code, "message": message_of(error)}


def message_of(error: falcon.HTTPError) -> str:
    """Return the text of an error."""
    return error.description or error.title or str(error.status)


def _answer_validation(
    req: Request, resp: Response, error: ValidationError, params: dict[str, object]
) -> None:
    raise falcon.HTTPBadRequest(description="; ".join(_sentence(one) for one in error.errors()))


def _sentence(problem: object) -> str:
    assert isinstance(problem, dict)
    message = str(problem["msg"]).removeprefix("Value error, ")
    place = ".".join(map(str, problem["loc"]))
    is_about_a_field = bool(problem["loc"]) and isinstance(problem["loc"][-1], str)
    if problem["type"] == "value_error" and not is_about_a_field:
        # About several fields at once, which the message names.
        return f"{place}.{message}" if place else message
    field = place or "body"
    if problem["type"] == "extra_forbidden":
        return f"{field}: there is no such field"
    given = "" if problem["type"] == "missing" else f" (not {str(problem['input'])[:80]!r})"
    return f"{field}: {message}{given}"


def _answer_unavailable(
    req: Request, resp: Response, error: ServiceUnavailableError, params: dict[str, object]
) -> None:
    if error.may_pass:
        raise falcon.HTTPServiceUnavailable(description=str(error), retry_after=5)
    raise falcon.HTTPBadGateway(description=str(error))


def _answer_database(
    req: Request, resp: Response, error: PeeweeException, params: dict[str, object]
) -> None:
    log.warning("%s %s: the database: %s", req.method, req.path, error)
    raise falcon.HTTPServiceUnavailable(
        description="the database gives no answer: try again later", retry_after=5
    )


def _answer_unexpected(
    req: Request, resp: Response, error: Exception, params: dict[str, object]
) -> None:
    if isinstance(error, falcon.HTTPError | falcon.HTTPStatus):
        raise error
    log.exception("%s %s failed", req.method, req.path)
    raise falcon.HTTPInternalServerError(description="the master failed; its log says why")
