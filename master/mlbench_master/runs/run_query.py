"""The query language for runs: ``exchange=powersgd accuracy > 95 tag:paper words``.

Terms are separated by spaces, and all must match. A term is a field, an operator and a value, or a
word. Spaces are allowed around operators except the colon. ``a OR b`` matches either term, so
``a OR b c`` requires c; ``NOT a`` negates a. In double quotes, values can contain spaces, and words
can contain operators. Two quotes inside quotes are one quote, and ``""`` is the empty value.
"""

import re
from dataclasses import dataclass

MAX_TERMS = 50
OPERATORS = (">=", "<=", "!=", "=", ">", "<", ":")
FIELD = r"[A-Za-z_][A-Za-z0-9_@./-]*"
_TERM = re.compile(
    rf"""(?:(?P<field>{FIELD})(?P<operator>:|\s*(?:{"|".join(OPERATORS[:-1])})\s*))?"""
    r"""(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>\S+))?"""
)


class QueryError(ValueError):
    """A malformed query. The message names the term and the remedy."""


@dataclass(frozen=True)
class Term:
    """A condition on a field, or a word to search for."""

    field: str
    """Name of the field; empty for a word."""
    operator: str
    value: str
    negated: bool = False

    def __str__(self) -> str:
        text = f"{self.field}{self.operator}{self.value}" if self.field else f'"{self.value}"'
        return f"not {text}" if self.negated else text


@dataclass(frozen=True)
class Query:
    """A conjunction of clauses."""

    clauses: tuple[tuple[Term, ...], ...] = ()
    """Alternatives: at least one term of each clause must match."""

    def __str__(self) -> str:
        several = len(self.clauses) > 1
        texts = (
            (f"({text})" if several and len(terms) > 1 else text)
            for terms in self.clauses
            for text in [" or ".join(map(str, terms))]
        )
        return " and ".join(texts)


ANY = Query()
"""The query that all runs match."""


def parse(text: str) -> Query:
    """Parse a query.

    Raises:
        QueryError: a term has no value, OR or NOT has no term, or the query has too many terms.
    """
    clauses: list[list[Term]] = []
    pending = ""  # OR or NOT, until the next term
    joined = negated = False
    at = 0
    while rest := text[at:].lstrip():
        at = len(text) - len(rest)
        match = _TERM.match(text, at)
        assert match
        at = match.end()
        field, operator = match["field"] or "", (match["operator"] or "").strip()
        quoted = match["quoted"]
        value = (match["plain"] or "") if quoted is None else quoted.replace('""', '"')
        if field and not value and quoted is None:
            start = f"{field}{operator}"
            raise QueryError(f'{start} lacks a value. Write {start}VALUE, or "{start}" for a word.')
        if match["field"] is None and match["plain"] in {"OR", "NOT"}:
            pending = match["plain"]
            if pending == "OR" and (joined or negated or not clauses):
                break
            joined, negated = joined or pending == "OR", negated != (pending == "NOT")
        elif field or value:
            term = Term(field, operator, value, negated)
            clauses[-1].append(term) if joined else clauses.append([term])
            pending, joined, negated = "", False, False
    if pending:
        raise QueryError(
            f'{pending} requires a term beside it. Write "{pending}" to search for the word.'
        )
    count = sum(map(len, clauses))
    if count > MAX_TERMS:
        raise QueryError(f"must have at most {MAX_TERMS} terms and words (got {count})")
    return Query(tuple(map(tuple, clauses)))
