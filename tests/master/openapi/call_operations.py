"""Calls each operation by the client that openapi-python-client generated, with its examples.

Prints the status of each as JSON. Started with the folder of the package ``mlbench_api``, the file
of the document, the address of the master, the users' token and that of an agent.
"""

import importlib
import json
import re
import sys
import typing
from datetime import datetime
from enum import Enum
from io import BytesIO
from pathlib import Path
from typing import Any

folder, document, url, user_token, agent_token = sys.argv[1:]
sys.path.insert(0, folder)
api: Any = importlib.import_module("mlbench_api")
File: Any = importlib.import_module("mlbench_api.types").File


def build(annotation: Any, example: Any) -> Any:
    """Return an example as a value of an annotated type, as somebody would write it."""
    for kind in typing.get_args(annotation) or (annotation,):
        if isinstance(example, dict) and hasattr(kind, "from_dict"):
            return kind.from_dict(example)
        if isinstance(example, list) and typing.get_origin(kind) is list:
            return [build(typing.get_args(kind)[0], entry) for entry in example]
        if kind is File:
            return File(BytesIO(example.encode()))
        if kind is datetime:
            return datetime.fromisoformat(example)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return kind(example)
    return example


def call(path: str, operation: dict[str, Any]) -> Any:
    """Return the response of an operation."""
    module = importlib.import_module(f"mlbench_api.api.default.{operation['operationId']}")
    types = typing.get_type_hints(module.sync_detailed)
    values = {one["name"]: one["example"] for one in operation["parameters"] if "example" in one}
    for content in operation.get("requestBody", {"content": {}})["content"].values():
        values["body"] = next(iter(content["examples"].values()))["value"]
    # A name that Python itself has gets an underscore.
    values = {name if name in types else f"{name}_": value for name, value in values.items()}
    inside = [values.pop(name) for name in re.findall(r"{(\w+)}", path)]
    is_of_agent = operation["security"][:1] == [{"agent_bearer": []}]
    token = agent_token if is_of_agent else user_token
    with api.AuthenticatedClient(base_url=url, token=token) as client:
        return module.sync_detailed(
            *inside,
            client=client,
            **{name: build(types[name], example) for name, example in values.items()},
        )


responses = {
    operation["operationId"]: call(path, operation)
    for path, methods in json.loads(Path(document).read_text())["paths"].items()
    for operation in methods.values()
}
print(
    json.dumps({name: [got.status_code, got.parsed is not None] for name, got in responses.items()})
)
