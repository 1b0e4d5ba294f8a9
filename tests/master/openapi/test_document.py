"""The document is valid, names every route and parameter, and its examples are real."""

from collections.abc import Callable, Iterator
from typing import Any

import falcon
import pytest
from falcon.testing import Result, TestClient
from openapi_schema_validator import OAS31Validator, oas31_format_checker
from openapi_spec_validator import OpenAPIV31SpecValidator

from master.models import Run
from master.openapi import document
from master.openapi.document import OPERATIONS
from master.openapi.operation import Operation
from master.openapi.parameters import OF_PATHS
from tests.conftest import as_pod
from tests.master.routes import WEB_ROUTES, fill, routes_of

DOCUMENT = document.build()
AGENT = as_pod("local-mlbench-worker-0")


def send(api: TestClient, operation: Operation, body: Any = None) -> Result:
    """Send a request with the example of every parameter."""
    usual = {name: str(parameter.example) for name, parameter in OF_PATHS.items()}
    # Run 1 is active, so that it cannot be deleted.
    run = {"run_id": "2"} if operation.method == "delete" else {}
    is_bytes = operation.request is not None and operation.request.model is None
    return api.simulate_request(
        operation.method.upper(),
        fill(operation.path, usual | run),
        params={one.name: one.example for one in operation.parameters if one.example is not None},
        headers=AGENT if operation.access == "agent" else None,
        **{"body" if is_bytes else "json": body},
    )


def check(schema: Any, value: Any) -> None:
    """Make sure that a value is what a schema of the document says."""
    whole = {**schema, "components": DOCUMENT["components"]}
    OAS31Validator(whole, format_checker=oas31_format_checker).validate(value)


def examples_in(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each schema of a part of the document that has examples, with each of them."""
    if isinstance(node, list):
        for entry in node:
            yield from examples_in(entry)
    elif isinstance(node, dict):
        if "schema" in node and "example" in node:
            yield node["schema"], node["example"]
        if "schema" in node and "examples" in node:
            yield from ((node["schema"], one["value"]) for one in node["examples"].values())
        for entry in node.values():
            yield from examples_in(entry)


def test_it_is_valid() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()


def test_it_is_served_to_everyone(api: TestClient) -> None:
    answer = TestClient(api.app).simulate_get("/openapi.json")
    assert answer.status_code == 200
    assert answer.json == DOCUMENT


def test_it_names_the_routes_that_there_are(api: TestClient) -> None:
    described = {
        (method.upper(), path.rstrip("/"))
        for path, methods in DOCUMENT["paths"].items()
        for method in methods
    }
    there_are = routes_of(api) - set(WEB_ROUTES)
    assert described == {(method, path.replace(":int", "")) for method, path in there_are}
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)


def test_every_operation_has_words_and_every_answer_an_example() -> None:
    for operation in OPERATIONS:
        assert operation.docstring, operation.name
        has_example = operation.answer.example is not None
        assert has_example == (operation.answer.model is not None), operation.name
        assert operation.request is None or operation.request.examples, operation.name


def test_every_example_is_what_its_schema_says() -> None:
    found = list(examples_in(DOCUMENT))
    assert len(found) > len(OPERATIONS)
    for schema, example in found:
        check(schema, example)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the query parameters that resources read."""
    names: set[str] = set()

    def watch(method: Callable[..., Any]) -> Callable[..., Any]:
        def note(self: falcon.Request, name: str, **options: Any) -> Any:
            names.add(name)
            return method(self, name, **options)

        return note

    for method in (falcon.Request.get_param, falcon.Request.get_param_as_list):
        monkeypatch.setattr(falcon.Request, method.__name__, watch(method))
    return names


def test_the_application_reads_and_answers_what_the_examples_say(
    api: TestClient, example_run: Run, read: set[str]
) -> None:
    for operation in OPERATIONS:
        read.clear()
        for body in operation.request.examples.values() if operation.request else [None]:
            check_answer(operation, send(api, operation, body))
        assert read == {parameter.name for parameter in operation.parameters}, operation.name


def check_answer(operation: Operation, answer: Result) -> None:
    """Make sure that an answer is one that the document describes as the good one."""
    assert answer.status_code == operation.answer.status, f"{operation.name}: {answer.text}"
    responses = DOCUMENT["paths"][operation.path][operation.method]["responses"]
    content = responses[str(answer.status_code)].get("content")
    if content is None:
        assert answer.content == b"", operation.name
        return
    schema = content[answer.headers["Content-Type"]]["schema"]
    check(schema, answer.text if operation.answer.model is None else answer.json)
