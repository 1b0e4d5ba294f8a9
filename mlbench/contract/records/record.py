"""The base classes of the API's records: dataclasses that are read from JSON and written to it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Self

from mlbench.contract.fields import Field

Time = Annotated[str, Field(schema={"format": "date-time"})]
"""Time in UTC with microseconds, such as ``2018-08-03T09:21:29.347960Z``."""


@dataclass(frozen=True)
class Record:
    """A JSON object of the API."""

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Return the record in a JSON object. Unknown fields are ignored.

        Raises:
            ValueError: a field is missing or has the wrong type.
        """
        # Agents have only the standard library. They create records, but never read one.
        import msgspec  # noqa: PLC0415

        try:
            record = msgspec.convert(fields, cls)
        except msgspec.ValidationError as error:
            raise ValueError(f"no {cls.__name__} that this version reads: {error}") from error
        record.__dict__["_fields"] = fields
        return record

    def to_fields(self) -> dict[str, Any]:
        """Return the record as a JSON object. NaN and infinities become None."""
        import msgspec  # noqa: PLC0415

        # Via `asdict`, because msgspec leaves out the defaults of a record that it has read.
        return dict(msgspec.json.decode(msgspec.json.encode(asdict(self))))

    @property
    def fields(self) -> Mapping[str, Any]:
        """The JSON object as it was received, with the fields that this version does not know."""
        received: Mapping[str, Any] = self.__dict__.get("_fields", {})
        return received


@dataclass(frozen=True)
class SparseRecord(Record):
    """A record whose JSON leaves out optional fields that are None."""

    def to_fields(self) -> dict[str, Any]:
        """Return the record as a JSON object without the fields that are None."""
        return {name: value for name, value in super().to_fields().items() if value is not None}
