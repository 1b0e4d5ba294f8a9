"""Every error is JSON with status and message."""

import logging
from collections.abc import Iterator
from typing import Any

import falcon
import pytest
from falcon import Request, Response
from falcon.testing import TestClient
from peewee import InterfaceError, OperationalError

from mlbench.contract.conversion import InvalidFieldsError
from mlbench_master import errors
from mlbench_master.http import error_responses as http_errors
from mlbench_master.reading.promql import PrometheusError


class Fails:
    """A resource that raises the given error."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def on_get(self, req: Request, resp: Response) -> None:
        raise self._error


def answer_to(error: BaseException) -> Any:
    app = falcon.App()
    http_errors.install(app)
    app.add_route("/", Fails(error))
    answer = TestClient(app).simulate_get("/")
    assert answer.headers["Content-Type"] == "application/json"
    assert set(answer.json) == {"status", "message"}
    assert answer.json["status"] == answer.status_code
    return answer


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL):
        yield


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (errors.BadFieldError("rank", "too high"), 400, "rank: too high"),
        (errors.NotFoundError("run_id: run 3 not found"), 404, "run 3 not found"),
        (errors.ConflictError("run 3 is active"), 409, "run 3 is active"),
        (errors.TooLargeError("body: at most 3 bytes"), 413, "at most 3 bytes"),
        (errors.RefusedError("swept.rate: a number"), 400, "swept.rate: a number"),
        # A lone surrogate cannot be encoded.
        (InvalidFieldsError([("args.\ud800", "no")]), 400, r"args.\ud800: no"),
        (falcon.HTTPNotFound(), 404, "404 Not Found"),
        (falcon.HTTPConflict(title="Taken"), 409, "Taken"),
        (PrometheusError("it is away"), 503, "it is away"),
        (
            OperationalError("locked"),
            503,
            "the database does not respond (locked). Try again later.",
        ),
        (InterfaceError("gone"), 503, "the database does not respond (gone). Try again later."),
        (ZeroDivisionError("secret"), 500, "internal error. See the log of the master."),
    ],
)
def test_every_error_is_json(error: Exception, status: int, message: str) -> None:
    answer = answer_to(error)
    assert answer.status_code == status
    assert message in answer.json["message"]
    assert answer.headers.get("Retry-After") == ("5" if status == 503 else None)


def test_internal_errors_do_not_leak_details(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert "secret" not in answer_to(ZeroDivisionError("secret")).text
    assert "secret" in caplog.text
