"""The language in which runs are searched: ``exchange=powersgd accuracy>95 tag:paper some words``.

Terms are separated by spaces, and all must hold. A term is FIELD, an operator and a value; anything
else is a word. In double quotes, a value has spaces, and a word operators;
two quotes in them are one, and ``""`` alone is no value.
"""

import re
from dataclasses import dataclass

MOST_TERMS = 50
OPERATORS = (">=", "<=", "!=", "=", ":", ">", "<")
FIELD = r"[A-Za-z_][A-Za-z0-9_@./-]*"
_TERM = re.compile(
    rf"""(?:(?P<field>{FIELD})(?P<operator>{"|".join(OPERATORS)}))?"""
    r"""(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>\S+))?"""
)


class QueryError(ValueError):
    """A query has a term that cannot be; the text names it and what would be right."""


@dataclass(frozen=True)
class Term:
    """What must hold of a field."""

    field: str
    operator: str
    value: str

    def __str__(self) -> str:
        return f"{self.field}{self.operator}{self.value}"


@dataclass(frozen=True)
class Query:
    """What runs must have."""

    words: tuple[str, ...] = ()
    terms: tuple[Term, ...] = ()


ANY = Query()
"""Of all runs."""


def parse(text: str) -> Query:
    """Read a query.

    Raises:
        QueryError: a term has no value, or there are too many.
    """
    words: list[str] = []
    terms: list[Term] = []
    at = 0
    while rest := text[at:].lstrip():
        at = len(text) - len(rest)
        match = _TERM.match(text, at)
        assert match
        at = match.end()
        field, operator = match["field"], match["operator"]
        quoted = match["quoted"]
        value = match["plain"] if quoted is None else quoted.replace('""', '"')
        if field is None:
            words.append(value)
        elif value or quoted is not None:
            terms.append(Term(field, operator, value))
        else:
            raise QueryError(
                f'{match[0]} lacks a value: {field}{operator}VALUE, or "{match[0]}" for a word'
            )
    if len(words) + len(terms) > MOST_TERMS:
        raise QueryError(f"at most {MOST_TERMS} terms and words (not {len(words) + len(terms)})")
    return Query(tuple(filter(None, words)), tuple(terms))
