"""Fields of requests: shared validators, and messages for invalid fields."""

import re

from pydantic import ValidationError

NO_NUL = r"^[^\x00]*$"
"""Pattern of strings without NUL, which neither PostgreSQL nor command lines accept."""

_NO_FIELD = ("extra_forbidden", "unexpected_keyword_argument")
_TIMES = ("datetime_from_date_parsing", "datetime_parsing", "datetime_type")
# Messages by the type of pydantic's error, formatted with the context of the error.
_MESSAGES = {
    "missing": "required field is missing",
    **dict.fromkeys(_NO_FIELD, "unknown field"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "must be true or false"),
    **dict.fromkeys(_TIMES, "must be a time such as 2018-08-03T09:21:29.347Z"),
    **dict.fromkeys(("dataclass_type", "dict_type", "model_type"), "must be a JSON object"),
    "finite_number": "must be a finite number",
    **dict.fromkeys(("float_parsing", "float_type"), "must be a number"),
    "greater_than": "must be greater than {gt:.15g}",
    "greater_than_equal": "must be at least {ge:.15g}",
    **dict.fromkeys(("int_from_float", "int_parsing", "int_type"), "must be a whole number"),
    "int_parsing_size": "must be a smaller number",
    "less_than": "must be less than {lt:.15g}",
    "less_than_equal": "must be at most {le:.15g}",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "string_type": "must be a string",
    "too_long": "must have at most {max_length} entries (got {actual_length})",
    "too_short": "must have at least {min_length} entries (got {actual_length})",
}
_WITHOUT_INPUT = frozenset({"missing", *_NO_FIELD, "too_long", "too_short"})


def refuse_truth_value(value: object) -> object:
    """Refuse True and False in a field of numbers. Pydantic would accept them as 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not a boolean")
    return value


def refuse_number(value: object) -> object:
    """Refuse 0 and 1 in a boolean field. Pydantic would accept them."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def parse_whole_number(text: str) -> int | None:
    """Return a string as a whole number; None if it is not one, or does not fit 64 bits."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= 18
    return int(text) if is_number else None


def describe(error: ValidationError) -> str:
    """Return the problems of all invalid fields as one message."""
    sentences = []
    for problem in error.errors():
        kind, path = problem["type"], ".".join(map(str, problem["loc"]))
        message = problem["msg"].removeprefix("Value error, ")
        is_about_a_field = bool(problem["loc"]) and isinstance(problem["loc"][-1], str)
        if kind == "value_error" and not is_about_a_field:
            # A message about several fields names them itself.
            sentences.append(f"{path}.{message}" if path else message)
            continue
        if kind in _MESSAGES:
            message = _MESSAGES[kind].format(**problem.get("ctx", {}))
        omits_value = kind in _WITHOUT_INPUT or "(got " in message
        value = "" if omits_value else f" (got {str(problem['input'])[:80]!r})"
        # The value follows the problem, and precedes a sentence with advice.
        rule, *advice = re.split(r"(?=\. [A-Z])", message, maxsplit=1)
        sentences.append(f"{path or 'body'}: {rule}{value}{''.join(advice)}")
    return "; ".join(sentences)
