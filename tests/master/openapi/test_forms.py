"""What a model looks like as a form."""

from typing import Any

from pydantic import BaseModel

from master.openapi.forms import to_form


class Body(BaseModel):
    name: str
    number: int | None = 3
    either: int | str | None = None
    truth: bool = False
    args: dict[str, str] = {}
    anything: Any = None


FORM = to_form(Body.model_json_schema())


def types(field: str) -> Any:
    schema = FORM["properties"][field]
    return schema.get("type") or [one["type"] for one in schema["anyOf"]]


def test_a_form_has_no_null() -> None:
    assert types("number") == "integer"
    assert types("either") == ["integer", "string"]
    assert FORM["required"] == ["name"]


def test_what_is_no_text_is_json() -> None:
    for field in ("args", "anything"):
        assert FORM["properties"][field] == {
            "type": "string",
            "contentMediaType": "application/json",
        }


def test_truth_values_are_those_that_are_taken() -> None:
    for spelled in FORM["properties"]["truth"]["enum"]:
        read = Body.model_validate({"name": "a", "truth": spelled})
        assert read.truth == (spelled.lower() in {"true", "1"})
