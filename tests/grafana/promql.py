"""The words of a PromQL query: which series it selects, over what range, in which functions."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_WORDS = re.compile(
    r"""
    (?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)
    |(?P<variable>\$\{[^}]*\}|\$\w+)
    |(?P<number>\d[\w.]*)
    |(?P<name>[a-zA-Z_:][\w:]*)
    |(?P<mark>=~|!~|!=|==|<=|>=|\S)
    """,
    re.VERBOSE,
)
_BEFORE_LABELS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_OPERATORS = frozenset({"and", "or", "unless", "offset", "bool", "atan2", "inf", "nan"})


@dataclass(frozen=True)
class Matcher:
    """What a label must be, e.g. ``run_id=~"$run"``."""

    label: str
    operator: str
    value: str
    """Without the quotes."""


@dataclass(frozen=True)
class Selector:
    """A choice of series inside a query."""

    name: str
    matchers: tuple[Matcher, ...]
    range: str
    """What stands in the square brackets; empty for an instant selector."""
    functions: tuple[str, ...]
    """The functions and aggregations around it, the innermost first."""


@dataclass(frozen=True)
class _Word:
    kind: str
    text: str


def selectors(query: str) -> list[Selector]:
    """Return the selectors of a query, in order; variables of Grafana may stand in it."""
    return list(_Reader(query).read())


class _Reader:
    """Goes through a query once, and knows which calls are open."""

    def __init__(self, query: str) -> None:
        self._words = [_Word(str(m.lastgroup), m.group()) for m in _WORDS.finditer(query)]
        self._next = 0
        self._open: list[str] = []

    def read(self) -> Iterator[Selector]:
        function = ""
        while self._next < len(self._words):
            word = self._take()
            if word.text in _BEFORE_LABELS:
                self._until(")") if self._peek() == "(" else ()
            elif word.kind == "name" and word.text.lower() not in _OPERATORS:
                if self._peek() == "(" or self._peek() in _BEFORE_LABELS:
                    function = word.text
                else:
                    yield self._selector(word.text)
            elif word.text == "{":
                self._next -= 1
                yield self._selector("")
            elif word.text == "(":
                self._open.append(function)
                function = ""
            elif word.text == ")":
                self._open.pop()
            elif word.text == "[":
                self._next -= 1
                self._until("]")

    def _selector(self, name: str) -> Selector:
        inside = self._until("}") if self._peek() == "{" else []
        labels = [at for at in range(len(inside) - 2) if inside[at].kind == "name"]
        matchers = tuple(
            Matcher(inside[at].text, inside[at + 1].text, inside[at + 2].text[1:-1])
            for at in labels
        )
        over = self._until("]") if self._peek() == "[" else []
        functions = tuple(name for name in reversed(self._open) if name)
        return Selector(name, matchers, "".join(word.text for word in over), functions)

    def _peek(self) -> str:
        return self._words[self._next].text if self._next < len(self._words) else ""

    def _take(self) -> _Word:
        self._next += 1
        return self._words[self._next - 1]

    def _until(self, end: str) -> list[_Word]:
        """Return the words between the bracket that comes now and its end; both are taken."""
        found = []
        while (word := self._take()).text != end:
            found.append(word)
        return found[1:]
