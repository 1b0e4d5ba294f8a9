"""Text cells of CSV files, made safe for spreadsheets that would run some texts as formulas."""

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def escape_formula(text: str) -> str:
    """Return a text, with ``'`` before it if a spreadsheet would run it as a formula."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def escape_formula_value(text: str) -> str:
    """Return the text of a value, escaped like a formula unless it is a number."""
    if not text.startswith(_FORMULA_STARTS):
        return text
    try:
        float(text)
    except ValueError:
        return escape_formula(text)
    return text
