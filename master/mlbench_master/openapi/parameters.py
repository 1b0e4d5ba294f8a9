"""Types of query parameters, and of numbers in bodies."""

from typing import Annotated

from mlbench.contract.fields import NO_NUL, Before, Field
from mlbench_master import timestamps

Number = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""Number that fits into a column of the database, such as a rank."""
Whole = Annotated[int, Field(ge=0, le=10**18 - 1)]
Positive = Annotated[int, Field(ge=1, le=10**18 - 1)]
Text = Annotated[str, Field(pattern=NO_NUL)]
Names = Annotated[tuple[str, ...], Before(lambda text: [*filter(None, text.split(","))], Text)]
"""Names that are separated by commas."""
_Date = Annotated[str, Field(schema={"format": "date-time"})]
Moment = Annotated[int, Before(timestamps.parse, _Date)]
"""Time in microseconds since 1970."""
