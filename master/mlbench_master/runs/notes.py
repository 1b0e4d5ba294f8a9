"""Notes of runs: Markdown as HTML for the page of a run."""

import re
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

_URL = re.compile(r"(https?://[^\s<>()]+)", re.IGNORECASE)
_ATTRIBUTES: dict[str, str | int | float] = {"target": "_blank", "rel": "noopener noreferrer"}


@lru_cache(maxsize=256)
def to_html(note: str) -> str:
    """Return a note as HTML that is safe on a page.

    HTML in a note is text. A link leads to ``http`` or ``https`` only, and an image is a link.
    """
    return str(_MARKDOWN.render(note))


def _adapt(state: StateCore) -> None:
    """Lower the headings of a note, open its links in a new tab, and make images links."""
    for token in state.tokens:
        if token.type.startswith("heading"):
            # The page has its own headings of the first and second level.
            token.tag = f"h{min(int(token.tag[1:]) + 2, 6)}"
        is_in_link = False
        children = []
        for child in token.children or ():
            if child.type == "link_open":
                child.attrs |= _ATTRIBUTES
            is_in_link = child.type == "link_open" or (is_in_link and child.type != "link_close")
            if child.type == "image" and not is_in_link:
                children += _link(str(child.attrs["src"]), child.content)
            elif child.type == "image":
                children.append(Token("text", "", 0, content=child.content))
            elif child.type == "text" and not is_in_link:
                for i, part in enumerate(_URL.split(child.content)):
                    children += _link(part, part) if i % 2 else [Token("text", "", 0, content=part)]
            else:
                children.append(child)
        token.children = children


def _link(url: str, text: str) -> list[Token]:
    return [
        Token("link_open", "a", 1, attrs={"href": url, **_ATTRIBUTES}),
        Token("text", "", 0, content=text),
        Token("link_close", "a", -1),
    ]


_MARKDOWN = MarkdownIt("commonmark", {"html": False})
_MARKDOWN.validateLink = lambda url: _URL.match(url) is not None  # type: ignore[method-assign]
_MARKDOWN.core.ruler.push("page", _adapt)
