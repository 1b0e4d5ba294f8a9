"""What a record of the API is: its JSON object, with types and bounds that are checked."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Self


class _DateTime:
    """Has the OpenAPI document call a text a date-time."""

    @staticmethod
    def __get_pydantic_json_schema__(schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(schema), "format": "date-time"}


Time = Annotated[str, _DateTime]
"""A time in UTC, to the microsecond, such as ``2018-08-03T09:21:29.347960Z``."""


@dataclass(frozen=True)
class Record:
    """A JSON object of the API."""

    # For the schemas of the OpenAPI document, which pydantic makes of these dataclasses.
    __pydantic_config__: ClassVar[Mapping[str, Any]] = {
        "extra": "forbid",
        "use_attribute_docstrings": True,
        "json_schema_serialization_defaults_required": True,
    }

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Return the record that a JSON object describes; unknown fields are passed over.

        ValueError if a field is missing, or of another type.
        """
        # The agent of a worker has the standard library only; it uses records, but never reads one.
        import msgspec  # noqa: PLC0415

        try:
            record = msgspec.convert(fields, cls)
        except msgspec.ValidationError as error:
            raise ValueError(f"no {cls.__name__} that this version reads: {error}") from error
        record.__dict__["_fields"] = fields
        return record

    def to_fields(self) -> dict[str, Any]:
        """Return the record as JSON holds it: numbers that are not finite are None."""
        import msgspec  # noqa: PLC0415

        # Of a record that it has read, msgspec writes no field that has its default.
        return dict(msgspec.json.decode(msgspec.json.encode(asdict(self))))

    @property
    def fields(self) -> Mapping[str, Any]:
        """The JSON object, also with fields that this version does not know."""
        said: Mapping[str, Any] = self.__dict__.get("_fields", {})
        return said


def _leave_out_null(schema: dict[str, Any]) -> None:
    """Describe a record whose optional fields are left out where they are None."""
    for name, described in schema["properties"].items():
        if name not in schema["required"]:
            choices = described.pop("anyOf", [])
            described.update(next((choice for choice in choices if choice != {"type": "null"}), {}))


@dataclass(frozen=True)
class SparseRecord(Record):
    """A record whose optional fields are left out of the JSON where they are None."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {
        **Record.__pydantic_config__,
        "json_schema_serialization_defaults_required": False,
        "json_schema_extra": _leave_out_null,
    }

    def to_fields(self) -> dict[str, Any]:
        """Return the record as JSON holds it."""
        return {name: part for name, part in super().to_fields().items() if part is not None}
