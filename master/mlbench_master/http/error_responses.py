"""Error responses of the API: JSON with ``status`` and ``message``."""

import logging

import falcon
from falcon import Request, Response
from peewee import InterfaceError, OperationalError

from mlbench.archive import ArchiveError
from mlbench.contract.conversion import InvalidFieldsError
from mlbench_master import errors
from mlbench_master.database.connection import explain

log = logging.getLogger(__name__)

_STATUS = {
    errors.NotFoundError: falcon.HTTP_404,
    errors.ConflictError: falcon.HTTP_409,
    errors.TooLargeError: falcon.HTTP_413,
    errors.TooManyError: falcon.HTTP_429,
}


def install(app: falcon.App[Request, Response]) -> None:
    """Turn every error of the app into a JSON response."""

    def answer(req: Request, resp: Response, error: Exception, params: dict[str, object]) -> None:
        match error:
            case errors.RefusedError():
                status = _STATUS.get(type(error), falcon.HTTP_400)
                raise falcon.HTTPError(status, description=str(error))
            case InvalidFieldsError():
                raise falcon.HTTPBadRequest(description=str(error))
            case OperationalError() | InterfaceError():
                reason = explain(error)
                log.warning("%s %s: the database: %s", req.method, req.path, reason)
                message = f"the database does not respond ({reason}). Try again later."
                raise falcon.HTTPServiceUnavailable(description=message, retry_after=5)
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
    """Write an error as a JSON response."""
    resp.media = {"status": error.status_code, "message": message_of(error)}


def message_of(error: falcon.HTTPError) -> str:
    """Return the message of an error."""
    return error.description or error.title or str(error.status)
