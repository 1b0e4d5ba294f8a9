"""Errors, and how the API answers them: JSON with ``status`` and ``message``, whatever it is."""

import logging
from collections.abc import Callable

import falcon
from falcon import Request, Response
from peewee import InterfaceError, OperationalError, PeeweeException
from pydantic import ValidationError

from mlbench.archive import ArchiveError
from mlbench.errors import MLBenchError

log = logging.getLogger(__name__)

# What a field must be, by the type of pydantic's error; filled in with the error's context.
_RIGHT = {
    "missing": "it is missing",
    "extra_forbidden": "there is no such field",
    "unexpected_keyword_argument": "there is no such field",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "datetime_from_date_parsing": "a time like 2018-08-03T09:21:29.347Z",
    "datetime_parsing": "a time like 2018-08-03T09:21:29.347Z",
    "datetime_type": "a time like 2018-08-03T09:21:29.347Z",
    "dataclass_type": "a JSON object",
    "dict_type": "a JSON object",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": "more than {gt:.15g}",
    "greater_than_equal": "at least {ge:.15g}",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller number",
    "int_type": "a whole number",
    "less_than": "less than {lt:.15g}",
    "less_than_equal": "at most {le:.15g}",
    "list_type": "a list",
    "model_type": "a JSON object",
    "string_pattern_mismatch": "a text of the form {pattern}",
    "string_too_long": "at most {max_length} characters",
    "string_too_short": "at least {min_length} characters",
    "string_type": "a text",
    "too_long": "at most {max_length} entries (not {actual_length})",
}
_WITHOUT_INPUT = frozenset(
    {"missing", "extra_forbidden", "unexpected_keyword_argument", "too_long"}
)


class BadFieldError(falcon.HTTPBadRequest):
    """A field of the request is wrong: 400, with a message that names it."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(description=f"{field}: {problem}")


class ServiceUnavailableError(MLBenchError):
    """Something cannot be done: 503 and Retry-After, or 502 where asking again does not help."""

    may_pass = True
    """Whether asking again may help."""


def install(app: falcon.App[Request, Response], explain: Callable[[PeeweeException], str]) -> None:
    """Make every error of the app a JSON answer; ``explain`` says why the database failed."""

    def _answer_database(
        req: Request, resp: Response, error: PeeweeException, params: dict[str, object]
    ) -> None:
        why = explain(error)
        log.warning("%s %s: the database: %s", req.method, req.path, why)
        raise falcon.HTTPServiceUnavailable(
            description=f"the database gives no answer ({why}): try again later", retry_after=5
        )

    app.set_error_serializer(serialize)
    app.add_error_handler(ValidationError, _answer_validation)
    app.add_error_handler(ServiceUnavailableError, _answer_unavailable)
    app.add_error_handler(ArchiveError, _answer_archive)
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
    raise falcon.HTTPBadRequest(description=describe(error))


def describe(error: ValidationError) -> str:
    """Say what is wrong with which fields."""
    return "; ".join(_sentence(one) for one in error.errors())


def _sentence(problem: object) -> str:
    assert isinstance(problem, dict)
    kind, place = problem["type"], ".".join(map(str, problem["loc"]))
    message = str(problem["msg"]).removeprefix("Value error, ")
    is_about_a_field = bool(problem["loc"]) and isinstance(problem["loc"][-1], str)
    if kind == "value_error" and not is_about_a_field:
        # About several fields at once, which the message names.
        return f"{place}.{message}" if place else message
    right = _RIGHT[kind].format(**problem.get("ctx", {})) if kind in _RIGHT else message
    given = "" if kind in _WITHOUT_INPUT else f" (not {str(problem['input'])[:80]!r})"
    return f"{place or 'body'}: {right}{given}"


def _answer_unavailable(
    req: Request, resp: Response, error: ServiceUnavailableError, params: dict[str, object]
) -> None:
    if error.may_pass:
        raise falcon.HTTPServiceUnavailable(description=str(error), retry_after=5)
    raise falcon.HTTPBadGateway(description=str(error))


def _answer_archive(
    req: Request, resp: Response, error: ArchiveError, params: dict[str, object]
) -> None:
    raise falcon.HTTPBadGateway(description=str(error))


def _answer_unexpected(
    req: Request, resp: Response, error: Exception, params: dict[str, object]
) -> None:
    if isinstance(error, falcon.HTTPError | falcon.HTTPStatus):
        raise error
    log.exception("%s %s failed", req.method, req.path)
    raise falcon.HTTPInternalServerError(description="the master failed; its log says why")
