"""Query parameters are read into a dataclass, and invalid ones are refused."""

from dataclasses import dataclass, field

import pytest
from falcon import Request
from falcon.testing import create_environ

from mlbench.contract.conversion import InvalidFieldsError
from mlbench_master.errors import BadFieldError
from mlbench_master.openapi.operation import NoQuery, read_query
from mlbench_master.openapi.parameters import Moment, Names, Positive, Text


@dataclass(frozen=True)
class _Query:
    limit: Positive | None = None
    since: Moment = 0
    columns: Names = ()
    metrics: list[Text] = field(default_factory=list)


def _read(query: str) -> _Query:
    return read_query(Request(create_environ(query_string=query)), _Query)


def test_parameters_are_read_into_fields() -> None:
    assert _read("") == _Query()
    assert _read("limit=5&since=1970-01-01T00:00:01%2B00:00") == _Query(5, 1_000_000)
    # A plus sign that is not escaped arrives as a space.
    assert _read("since=1970-01-01T02:00:01+02:00") == _Query(since=1_000_000)


def test_lists_are_comma_separated_or_repeated() -> None:
    assert _read("columns=a,b,&metrics=c,d") == _Query(columns=("a", "b"), metrics=["c,d"])
    assert _read("columns=a&columns=b&metrics=c&metrics=d") == _read(
        "columns=a,b&metrics=c&metrics=d"
    )


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("limt=5", "limt: unknown parameter. Did you mean limit?"),
        ("x=5", "x: unknown parameter. Use limit, since, columns, metrics."),
        ("limit=0", "limit: must be from 1 to 1e+18 (got '0')"),
        ("limit=1&limit=2", "limit: must be a whole number (got '1,2')"),
        ("since=soon", "since: must be a time such as 2018-08-03T09:21:29.347Z (got 'soon')"),
        ("columns=%00", "columns: must not contain NUL (got '\\x00')"),
    ],
)
def test_invalid_parameters_are_named(query: str, message: str) -> None:
    with pytest.raises((BadFieldError, InvalidFieldsError)) as error:
        _read(query)
    assert str(error.value) == message


def test_a_request_without_parameters_refuses_any() -> None:
    with pytest.raises(BadFieldError, match=r"a: unknown parameter\. This request takes none\."):
        read_query(Request(create_environ(query_string="a=1")), NoQuery)
