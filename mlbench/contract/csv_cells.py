"""Text in CSV files, which people open in spreadsheets that take some texts for formulas."""

_BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def escape_formula(text: str) -> str:
    """Return a text with ``'`` before it if a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(_BEGINS_A_FORMULA) else text


def escape_formula_value(text: str) -> str:
    """Return the text of a value likewise; a number stays a number."""
    if not text.startswith(_BEGINS_A_FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return escape_formula(text)
    return text
