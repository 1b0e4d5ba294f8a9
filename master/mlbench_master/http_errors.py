"""How the API answers errors: JSON with ``status`` and ``message``, whatever it is."""

import logging
from collections.abc import Callable

import falcon
from falcon import Request, Response
from peewee import InterfaceError, OperationalError, PeeweeException
from pydantic import ValidationError

from mlbench.archive import ArchiveError
from mlbench_master.errors import (
    BadFieldError,
    ConflictError,
    NotFoundError,
    RefusedError,
    ServiceUnavailableError,
    TooLargeError,
)
from mlbench_master.fields import describe

log = logging.getLogger(__name__)

_STATUS = {
    BadFieldError: falcon.HTTP_400,
    NotFoundError: falcon.HTTP_404,
    ConflictError: falcon.HTTP_409,
    TooLargeError: falcon.HTTP_413,
}


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
    app.add_error_handler(RefusedError, _answer_refused)
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


def _answer_refused(
    req: Request, resp: Response, error: RefusedError, params: dict[str, object]
) -> None:
    raise falcon.HTTPError(_STATUS.get(type(error), falcon.HTTP_400), description=str(error))


def _answer_validation(
    req: Request, resp: Response, error: ValidationError, params: dict[str, object]
) -> None:
    raise falcon.HTTPBadRequest(description=describe(error))


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
