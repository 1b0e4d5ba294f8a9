"""How the API answers errors: JSON with ``status`` and ``message``, whatever it is."""

import logging

import falcon
from falcon import Request, Response
from peewee import InterfaceError, OperationalError
from pydantic import ValidationError

from mlbench.archive import ArchiveError
from mlbench_master import errors
from mlbench_master.database.connection import explain
from mlbench_master.http.fields import describe

log = logging.getLogger(__name__)

_STATUS = {
    errors.NotFoundError: falcon.HTTP_404,
    errors.ConflictError: falcon.HTTP_409,
    errors.TooLargeError: falcon.HTTP_413,
    errors.TooManyError: falcon.HTTP_429,
}


def install(app: falcon.App[Request, Response]) -> None:
    """Make every error of the app a JSON answer."""

    def answer(req: Request, resp: Response, error: Exception, params: dict[str, object]) -> None:
        match error:
            case errors.RefusedError():
                status = _STATUS.get(type(error), falcon.HTTP_400)
                raise falcon.HTTPError(status, description=str(error))
            case ValidationError():
                raise falcon.HTTPBadRequest(description=describe(error))
            case OperationalError() | InterfaceError():
                why = explain(error)
                log.warning("%s %s: the database: %s", req.method, req.path, why)
                why = f"the database does not respond ({why}). Try again later."
                raise falcon.HTTPServiceUnavailable(description=why, retry_after=5)
            case errors.ServiceUnavailableError(may_pass=True):
                raise falcon.HTTPServiceUnavailable(description=str(error), retry_after=5)
            case errors.ServiceUnavailableError() | ArchiveError():
                raise falcon.HTTPBadGateway(description=str(error))
        log.exception("%s %s failed", req.method, req.path)
        raise falcon.HTTPInternalServerError(
            description="internal error. See the log of the master."
        )

    app.set_error_serializer(serialize)
    app.add_error_handler(Exception, answer)


def serialize(req: Request, resp: Response, error: falcon.HTTPError) -> None:
    """Answer with an error as JSON."""
    resp.media = {"status": error.status_code, "message": message_of(error)}


def message_of(error: falcon.HTTPError) -> str:
    """Return the text of an error."""
    return error.description or error.title or str(error.status)
