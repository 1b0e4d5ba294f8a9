"""The language in which runs are searched: ``exchange=powersgd accuracy > 95 tag:paper words``.

Terms are separated by spaces, and all must hold. A term is FIELD, an operator and a value, and may
have spaces around the operator, unless that is a colon; anything else is a word. ``a OR b`` holds
if either does, so that ``a OR b c`` needs c; ``NOT a`` if a does not. In double quotes, a value has
spaces, and a word operators; two quotes in them are one, and ``""`` alone is no value.
"""

import re
from dataclasses import dataclass, replace

MOST_TERMS = 50
OPERATORS = (">=", "<=", "!=", "=", ">", "<", ":")
FIELD = r"[A-Za-z_][A-Za-z0-9_@./-]*"
_TERM = re.compile(
    rf"""(?:(?P<field>{FIELD})(?P<operator>:|\s*(?:{"|".join(OPERATORS[:-1])})\s*))?"""
    r"""(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>\S+))?"""
)


class QueryError(ValueError):
    """A query has a term that cannot be; the text names it and what would be right."""


@dataclass(frozen=True)
class Term:
    """A condition on a field, or a word that a run must have."""

    field: str
    """Empty for a word."""
    operator: str
    value: str
    negated: bool = False

    def __str__(self) -> str:
        text = f"{self.field}{self.operator}{self.value}" if self.field else f'"{self.value}"'
        return f"not {text}" if self.negated else text


@dataclass(frozen=True)
class Query:
    """Conditions that runs must meet."""

    clauses: tuple[tuple[Term, ...], ...] = ()
    """Of each clause, one term must hold."""

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
    """Read a query.

    Raises:
        QueryError: a term has no value, OR or NOT has no term, or there are too many terms.
    """
    clauses: list[list[Term]] = []
    waiting = ""  # the OR or NOT whose term follows
    joined = negated = False
    at = 0
    while rest := text[at:].lstrip():
        at = len(text) - len(rest)
        match = _TERM.match(text, at)
        assert match
        at = match.end()
        term = _read_term(match)
        if match["field"] is None and match["plain"] in {"OR", "NOT"}:
            waiting = match["plain"]
            if waiting == "OR" and (joined or negated or not clauses):
                break
            joined, negated = joined or waiting == "OR", negated != (waiting == "NOT")
        elif term.field or term.value:
            term = replace(term, negated=negated)
            clauses[-1].append(term) if joined else clauses.append([term])
            waiting, joined, negated = "", False, False
    if waiting:
        raise QueryError(
            f'{waiting} requires a term beside it. Write "{waiting}" to search for the word.'
        )
    count = sum(map(len, clauses))
    if count > MOST_TERMS:
        raise QueryError(f"must have at most {MOST_TERMS} terms and words (got {count})")
    return Query(tuple(map(tuple, clauses)))


def _read_term(match: re.Match[str]) -> Term:
    field, operator = match["field"] or "", (match["operator"] or "").strip()
    quoted = match["quoted"]
    value = (match["plain"] or "") if quoted is None else quoted.replace('""', '"')
    if field and not value and quoted is None:
        written = f"{field}{operator}"
        raise QueryError(
            f'{written} lacks a value. Write {written}VALUE, or "{written}" for a word.'
        )
    return Term(field, operator, value)
