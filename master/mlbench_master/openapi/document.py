"""The builder of the OpenAPI 3.1 document, from routes and records."""

import inspect
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from falcon.routing import map_http_methods

from mlbench.contract.distribution import own_version
from mlbench.contract.fields import Field
from mlbench.contract.names import StreamName
from mlbench.contract.records import Error
from mlbench_master.http.access import Access, access_of
from mlbench_master.http.bodies import JAVASCRIPT
from mlbench_master.openapi.operation import Operation, Route
from mlbench_master.openapi.schemas import Schemas

JSON = "application/json"

# Responses by operation or record, and bodies by operation and example. Tests send them.
_EXAMPLES = json.loads(Path(__file__).with_name("examples.json").read_text())

_DESCRIPTION = """\
Submit runs, follow their progress, read and add metrics.

- The slash at the end of a path is optional.
- Bodies are JSON, or forms if their description says so. Numbers and booleans can be sent as \
strings.
- With `text/javascript` in the Accept header, JSON has this content type.
- Every error is JSON with `status` and `message`.
"""


@dataclass(frozen=True)
class PathVariables:
    """The variables in the paths of all operations."""

    run_id: Annotated[int, Field(example=1)]
    """Id of the run."""
    rank: Annotated[int, Field(example=0)]
    """Rank."""
    stream: Annotated[StreamName, Field(example="stdout")]
    """Stream."""
    file: Annotated[str, Field(example="plots/loss.csv")]
    """Path of the file in the output folder."""
    owner: Annotated[str, Field(example="1")]
    """Id of a run, or name of a pod with `metric_type=pod`."""
    pod: Annotated[str, Field(example="local-mlbench-worker-0")]
    """Name of the worker pod."""
    diagnosis_id: Annotated[int, Field(example=1)]
    """Id of the diagnosis, from the response to a poll."""
    profile_id: Annotated[int, Field(example=1)]
    """Id of the profile, from the response to a poll."""
    fault_id: Annotated[int, Field(example=1)]
    """Id of the fault, from the response to a poll."""
    name: Annotated[str, Field(example="scaling")]
    """Name of the benchmark set."""
    token_id: Annotated[str, Field(example="5f0c2a6de1b94d3f8a7c6b5d4e3f2a10")]
    """Id of the joining token."""


_SECURITY_SCHEMES = {
    f"{who}_{scheme}": {"type": "http", "scheme": scheme, "description": description}
    for who, token in (
        ("user", "User token, or a named token with a role that allows the request"),
        ("agent", "Token of the agent's pod"),
        ("join", "Joining token, or token of a user"),
    )
    for scheme, description in (
        ("bearer", f"{token}."),
        ("basic", f"{token} as the password, with any user name."),
    )
}


# Error responses by status: name, description, and an example of the message.
_FAILURES = {
    400: ("BadRequest", "A field of the request is wrong.", "rank: run 3 has ranks 0 to 1 (got 2)"),
    401: (
        "NoToken",
        "The token is missing or wrong.",
        "Authorization: missing or wrong token. Send `Bearer TOKEN`, or the token as the password "
        "of HTTP Basic.",
    ),
    403: (
        "Forbidden",
        "This token, or this web page, has no access.",
        "Authorization: this route requires the role admin (got run)",
    ),
    404: ("NotFound", "The resource does not exist.", "run_id: run 12 not found"),
    409: (
        "Conflict",
        "The state of the resource does not allow the request.",
        "run 3 is imported, therefore read-only",
    ),
    413: ("BodyTooLarge", "The body is too large.", "body: must be at most 1 MiB"),
    414: ("UrlTooLong", "The URL is too long.", "Request Line is too large (8192 > 4094)"),
    421: (
        "ForeignHost",
        "The Host header names another host.",
        "Host: must be localhost (got 'a.com')",
    ),
    429: (
        "QuotaUsedUp",
        "The quota of the token is used up. Try again later.",
        "token: at most 60 new runs per minute. Try again in a few seconds.",
    ),
    431: ("HeadersTooLarge", "The headers are too large.", "limit request headers fields"),
    502: (
        "Incomplete",
        "Prometheus has lost or deleted samples, so the response would be incomplete.",
        "Prometheus has 10 of the 411 samples of run 7: it lost or forgot the rest "
        "(retention, a lost disk)",
    ),
    503: ("Unavailable", "The service is unavailable. Try again later.", "Prometheus is not ready"),
}
# Headers of error responses, by status, with their types.
_HEADERS = {401: {"WWW-Authenticate": "string"}, 503: {"Retry-After": "integer"}}


def build(routes: Iterable[Route], root_path: str = "") -> dict[str, Any]:
    """Return the OpenAPI document of routes below a path, ready for JSON."""
    schemas = Schemas()
    schemas.of(Error, is_response=True)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        # OpenAPI has no converters, and the paths of the API end with a slash.
        path = re.sub(r":\w+}", "}", route.path) + "/" * route.path.startswith("/api/")
        paths[path] = {
            method.lower(): _describe(responder, path, access_of(route.resource), schemas)
            for method, responder in map_http_methods(route.resource, route.suffix).items()
        }
    failures: dict[str, dict[str, Any]] = {}
    for status, (name, description, example) in _FAILURES.items():
        media = {
            "schema": {"$ref": f"#/components/schemas/{Error.__name__}"},
            "example": Error(status, example).to_fields(),
        }
        failures[name] = {"description": description, "content": {JSON: media, JAVASCRIPT: media}}
        if status in _HEADERS:
            failures[name]["headers"] = {
                header: {"schema": {"type": kind}} for header, kind in _HEADERS[status].items()
            }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "MLBench",
            "version": own_version(),
            "description": _DESCRIPTION,
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": root_path or "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "responses": failures,
            "securitySchemes": _SECURITY_SCHEMES,
        },
    }


def _describe(responder: Any, path: str, access: Access, schemas: Schemas) -> dict[str, Any]:
    operation: Operation = responder.operation
    text = inspect.getdoc(responder) or ""
    variables = re.findall(r"{(\w+)}", path)
    who = "user" if access in ("scrape", "admin") else access
    schemes = () if access == "open" else (f"{who}_bearer", f"{who}_basic")
    failures = {400, 403, 414, 431, *operation.errors, *((401, 421) if schemes else ())}
    if re.search(r"{(?!pod})", path):  # a pod with a valid token exists
        failures.add(404)
    if operation.body is not None:
        failures.add(413)
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": text.partition("\n")[0],
        "description": text,
        "parameters": [
            *(schemas.parameters(PathVariables, "path", variables) if variables else ()),
            *schemas.parameters(operation.query, "query"),
        ],
        "responses": {
            str(operation.status): _describe_answer(operation, schemas),
            **({"202": {"description": operation.accepted}} if operation.accepted else {}),
            **{
                str(status): {"$ref": f"#/components/responses/{_FAILURES[status][0]}"}
                for status in sorted(failures)
            },
        },
        # The empty requirement makes the others optional; only requests through a proxy need them.
        "security": [*([{}] if access == "scrape" else []), *({scheme: []} for scheme in schemes)],
    }
    if operation.body is not None:
        described["requestBody"] = _describe_body(operation, schemas)
    return described


def _describe_body(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    bodies = _EXAMPLES["bodies"][operation.name]
    examples = {name: {"value": body} for name, body in bodies.items()}
    if operation.body is bytes:
        schema = {"type": "string", "format": "binary"}
        content = {"application/octet-stream": {"schema": schema, "examples": examples}}
        return {"required": False, "content": content}  # a piece of a stream may be empty
    schema = schemas.of(operation.body, is_response=False)
    body: dict[str, Any] = {
        "required": True,
        "content": {JSON: {"schema": schema, "examples": examples}},
    }
    if operation.form:
        # Not a second content type: openapi-python-client would generate a broken client.
        body["description"] = (
            "The fields, as JSON or as a form (`application/x-www-form-urlencoded`)."
        )
    return body


def _describe_answer(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    content: dict[str, Any] = {kind: {"schema": schema} for kind, schema in operation.files.items()}
    if (model := operation.model) is not None:
        answers = _EXAMPLES["answers"]
        example = answers.get(operation.name)
        if example is None:
            record, *_ = get_args(model) or (model,)
            record, *_ = get_args(record) or (record,)
            # The examples leave out fields with their default value.
            example = record.from_fields(answers[record.__name__]).to_fields()
            example = [example] if get_origin(model) is list else example
        media = {"schema": schemas.of(model, is_response=True), "example": example}
        content = {JSON: media, JAVASCRIPT: media, **content}
    described: dict[str, Any] = {"description": operation.answer}
    return {**described, "content": content} if content else described
