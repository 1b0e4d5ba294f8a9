"""The OpenAPI document: it is valid and complete, and its examples work."""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from falcon.testing import Result, TestClient
from openapi_schema_validator import OAS31Validator, oas31_format_checker
from openapi_spec_validator import OpenAPIV31SpecValidator

from mlbench import contract
from mlbench_master.database.models import Run
from tests.conftest import as_pod
from tests.master.routes import WEB_ROUTES, fill, routes_of

Document = Mapping[str, Any]
AGENT = as_pod("local-mlbench-worker-0")
# Cached, because building it takes a second.
_DOCUMENT: dict[str, Any] = {}


_OF_FILES = ("import_archive", "get_archive")
"""Operations whose examples are not whole archives; tests of archives cover them."""


@dataclass(frozen=True)
class Described:
    """An operation of the document."""

    method: str
    path: str
    facts: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.facts["operationId"])

    def examples(self, where: str) -> dict[str, Any]:
        """Return the examples of the parameters in "path" or "query", by name."""
        found = [entry for entry in self.facts["parameters"] if entry["in"] == where]
        return {entry["name"]: entry["example"] for entry in found if "example" in entry}

    def bodies(self) -> list[tuple[str, Any]]:
        """Return the examples of the request body, each with its media type."""
        content = self.facts.get("requestBody", {"content": {}})["content"]
        return [
            (kind, example["value"])
            for kind, described in content.items()
            for example in described.get("examples", {}).values()
        ]


@pytest.fixture
def document(api: TestClient) -> Document:
    """The document, as served without a token."""
    if not _DOCUMENT:
        _DOCUMENT.update(TestClient(api.app).simulate_get("/openapi.json").json)
    return _DOCUMENT


@pytest.fixture
def operations(document: Document) -> list[Described]:
    return [
        Described(method, path, facts)
        for path, methods in document["paths"].items()
        for method, facts in methods.items()
    ]


def check(document: Document, schema: Any, value: Any) -> None:
    """Assert that a value matches a schema of the document."""
    whole = {**schema, "components": document["components"]}
    OAS31Validator(whole, format_checker=oas31_format_checker).validate(value)


def examples_in(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each pair of a schema and one of its examples, recursively."""
    if isinstance(node, list):
        for entry in node:
            yield from examples_in(entry)
    elif isinstance(node, dict):
        if "schema" in node and "example" in node:
            yield node["schema"], node["example"]
        if "schema" in node and "examples" in node:
            yield from ((node["schema"], example["value"]) for example in node["examples"].values())
        for entry in node.values():
            yield from examples_in(entry)


def test_the_document_is_valid(document: Document) -> None:
    OpenAPIV31SpecValidator(document).validate()


def test_all_routes_are_documented(api: TestClient, operations: list[Described]) -> None:
    described = {(entry.method.upper(), entry.path.rstrip("/")) for entry in operations}
    there_are = routes_of(api) - set(WEB_ROUTES)
    templates = {(method, re.sub(":(int|path)", "", path)) for method, path in there_are}
    assert described == templates
    assert len({entry.name for entry in operations}) == len(operations)


def test_every_operation_has_a_summary_and_examples(operations: list[Described]) -> None:
    for operation in operations:
        assert operation.facts["summary"], operation.name
        assert "requestBody" not in operation.facts or operation.bodies(), operation.name
        for answer in operation.facts["responses"].values():
            for kind, content in answer.get("content", {}).items():
                assert "json" not in kind or "example" in content, operation.name


def test_every_example_matches_its_schema(document: Document) -> None:
    found = list(examples_in(document))
    assert len(found) > len(document["paths"])
    for schema, example in found:
        check(document, schema, example)


def test_docstrings_of_fields_are_their_descriptions(document: Document) -> None:
    """The generator finds docstrings by their format; Python's parser finds all of them."""
    schemas, found = document["components"]["schemas"], 0
    for file in Path(contract.__file__).parent.rglob("*.py"):
        for record in ast.walk(ast.parse(file.read_text())):
            if isinstance(record, ast.ClassDef) and record.name in schemas:
                for node, below in pairwise(record.body):
                    match node, below:
                        case (
                            ast.AnnAssign(target=ast.Name(id=name)),
                            ast.Expr(value=ast.Constant(value=str(text))),
                        ):
                            said = schemas[record.name]["properties"][name]["description"]
                            assert said == inspect.cleandoc(text), (record.name, name)
                            found += 1
    assert found > 500


def test_generated_titles_and_defaults_are_removed(document: Document) -> None:
    machine = document["components"]["schemas"]["Machine"]["properties"]
    assert machine["cpus"]["description"] == "Number of cores that the worker may run on."
    assert "title" not in machine["cpus"]
    assert "default" not in machine["cpus"]


def test_the_application_accepts_the_examples_and_answers_as_documented(
    api: TestClient,
    example_run: Run,
    document: Document,
    operations: list[Described],
) -> None:
    for operation in operations:
        if operation.name in _OF_FILES:
            continue
        for kind, body in operation.bodies() or [("", None)]:
            check_answer(document, operation, send(api, operation, kind, body))


def send(api: TestClient, operation: Described, kind: str, body: Any) -> Result:
    """Send a request with the examples of all parameters."""
    is_agents = operation.facts["security"][:1] == [{"agent_bearer": []}]
    # Run 1 is active and cannot be deleted.
    run = {"run_id": "2"} if operation.method == "delete" else {}
    return api.simulate_request(
        operation.method.upper(),
        fill(operation.path, {k: str(v) for k, v in operation.examples("path").items()} | run),
        params=operation.examples("query"),
        headers=AGENT if is_agents else None,
        **{"body" if kind == "application/octet-stream" else "json": body},
    )


def test_each_example_of_a_parameter_is_valid_by_itself(
    api: TestClient, example_run: Run, operations: list[Described]
) -> None:
    for operation in operations:
        query = [entry for entry in operation.facts["parameters"] if entry["in"] == "query"]
        required = {entry["name"]: entry["example"] for entry in query if entry["required"]}
        for parameter in query:
            shown = {parameter["name"]: parameter["example"]} if "example" in parameter else {}
            answer = api.simulate_request(
                operation.method.upper(),
                fill(operation.path, {k: str(v) for k, v in operation.examples("path").items()}),
                params=required | shown,
            )
            assert answer.status_code != 400, (operation.name, shown, answer.text)


def check_answer(document: Document, operation: Described, answer: Result) -> None:
    """Assert that a response is the documented success response."""
    good, described = next(iter(operation.facts["responses"].items()))
    assert answer.status_code == int(good), f"{operation.name}: {answer.text}"
    if "content" not in described:
        assert answer.content == b"", operation.name
        return
    kind = answer.headers["Content-Type"]
    said = answer.json if kind == "application/json" else answer.text
    check(document, described["content"][kind]["schema"], said)
