"""What the fields of several request bodies have in common."""

# A text without NUL: neither PostgreSQL nor a command line takes it.
NO_NUL = r"^[^\x00]*$"


def refuse_truth_value(value: object) -> object:
    """Return the value of a field that holds a number: True would pass for 1.

    Raises:
        ValueError: it is a truth value.
    """
    if isinstance(value, bool):
        raise ValueError("a number, not a truth value")
    return value
