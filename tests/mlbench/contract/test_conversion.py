"""Values of JSON, forms and command lines are converted to annotated types, or refused."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal

import pytest

from mlbench.contract.conversion import InvalidFieldsError, convert
from mlbench.contract.fields import NO_NUL, Before, Field, describe


def check_even(number: int) -> int:
    if number % 2:
        raise ValueError("must be even. Add 1.")
    return number


def read_one(size: Any) -> Any:
    return 1 if size == "one" else size


@dataclass(frozen=True)
class Part:
    size: Annotated[float | None, Field(gt=0, unit="mm")] = None
    """Size of the part."""
    even: Annotated[int, check_even] = 0


@dataclass(frozen=True)
class Whole(Part):
    size: Annotated[float | None, Field(le=9), Before(read_one)] = 3
    name: Annotated[str, Field(max_length=3, pattern=NO_NUL)] = ""
    kind: Literal["a", 2] = "a"
    is_open: bool = False
    parts: Annotated[list[Part], Field(max_length=2)] = field(default_factory=list)
    counts: dict[Annotated[str, Field(pattern="[a-z]+")], int] = field(default_factory=dict)
    any_value: Any = None
    number_or_text: int | str = 0
    date: datetime | None = None

    def __post_init__(self) -> None:
        if self.is_open and self.parts:
            raise ValueError("is_open and parts: only one of the two is allowed")


@dataclass(frozen=True)
class Required:
    whole: Whole
    number: int


def test_a_redefined_field_inherits_missing_properties() -> None:
    size = describe(Whole)["size"]
    assert (size.sentence, size.gt, size.le) == ("Size of the part, in mm.", 0, 9)
    assert (size.kind, size.default, size.required) == (float, 3, False)
    bounds = (size.bounds, describe(Part)["size"].bounds)
    assert bounds == ("more than 0 and at most 9", "more than 0")
    required = [name for name, field in describe(Required).items() if field.required]
    assert required == ["whole", "number"]


def test_strings_are_converted() -> None:
    form = {
        **{"size": "1.5", "even": "4", "kind": "2", "is_open": "False", "number_or_text": "7"},
        **{"parts": '[{"size": 2}]', "counts": '{"a": "1"}', "date": "2018-08-03 09:21"},
    }
    more: Any = {"counts": {"a": 1}, "number_or_text": "7", "date": datetime(2018, 8, 3, 9, 21)}
    whole = Whole(size=1.5, even=4, kind=2, parts=[Part(size=2.0)], **more)
    assert convert(Whole, form) == whole
    assert convert(Whole, {"size": "one", "any_value": [1]}) == Whole(size=1.0, any_value=[1])
    assert convert(Whole, {"size": None, "date": None}) == Whole(size=None)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([], "body: must be a JSON object (got '[]')"),
        ({"size": "x"}, "size: must be a number (got 'x')"),
        ({"size": True}, "size: must be a number (got 'True')"),
        ({"size": "1_0"}, "size: must be a number (got '1_0')"),
        ({"size": "nan"}, "size: must be a finite number (got 'nan')"),
        ({"size": 10**400}, f"size: must be a finite number (got '1{79 * '0'}')"),
        ({"size": 10}, "size: must be more than 0 and at most 9 (got '10')"),
        ({"even": 3}, "even: must be even (got '3'). Add 1."),
        ({"even": "٢"}, "even: must be a whole number (got '٢')"),
        ({"even": 1.5}, "even: must be a whole number (got '1.5')"),
        ({"even": 1e308}, "even: must be a whole number (got '1e+308')"),
        ({"even": 5000 * "9"}, f"even: must be a whole number (got '{80 * '9'}')"),
        ({"even": False}, "even: must be a whole number (got 'False')"),
        ({"name": "long"}, "name: must have at most 3 characters (got 'long')"),
        ({"name": "\0"}, r"name: must not contain NUL (got '\x00')"),
        ({"name": 3}, "name: must be a string (got '3')"),
        ({"kind": "b"}, "kind: must be a or 2 (got 'b')"),
        ({"is_open": 1}, "is_open: must be true or false (got '1')"),
        ({"parts": "{}"}, "parts: must be a list (got '{}')"),
        ({"parts": [{}, {}, {}]}, "parts: must have at most 2 entries (got 3)"),
        ({"parts": [{}, {"size": 0}]}, "parts.1.size: must be more than 0 (got '0')"),
        ({"counts": {"A": 1}}, "counts.A: must match [a-z]+ (got 'A')"),
        ({"counts": {"a": "b"}}, "counts.a: must be a whole number (got 'b')"),
        ({"counts": "["}, "counts: must be a JSON object (got '[')"),
        ({"number_or_text": None}, "number_or_text: must be a number or a string (got 'None')"),
        ({"date": 5}, "date: must be a time such as 2018-08-03T09:21:29.347Z (got '5')"),
        ({"other": 1}, "other: unknown field"),
        ({"is_open": True, "parts": [{}]}, "is_open and parts: only one of the two is allowed"),
        ({"name": 3, "even": 1, "x": 1}, "x: unknown field; name: must be a string (got '3'); eve"),
    ],
)
def test_an_invalid_value_is_named_with_the_rule(fields: object, message: str) -> None:
    with pytest.raises(InvalidFieldsError) as refused:
        convert(Whole, fields)
    assert str(refused.value).startswith(message)


def test_nested_fields_are_named_by_their_path() -> None:
    with pytest.raises(InvalidFieldsError) as refused:
        convert(Required, {"whole": {"is_open": True, "parts": [{}]}})
    missing, excluded = refused.value.problems
    assert missing == ("number", "required field is missing")
    assert excluded == ("whole.is_open and parts", "only one of the two is allowed")
