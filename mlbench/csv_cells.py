"""Text in CSV files, which people open in programs that take some text for formulas."""

_BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def harmless(text: str) -> str:
    """Return a text as a cell that no spreadsheet computes: with ``'`` before what would begin one.

    It is for names and texts. Numbers need it not, and would be none any more.
    """
    return f"'{text}" if text.startswith(_BEGINS_A_FORMULA) else text


def harmless_value(text: str) -> str:
    """Return the text of a value likewise; a number stays as it is."""
    if not text.startswith(_BEGINS_A_FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return harmless(text)
    return text
