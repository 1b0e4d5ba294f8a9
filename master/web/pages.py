"""The pages. They are open to all, as they hold no data: the API asks for the session."""

import string
from dataclasses import dataclass
from urllib.parse import quote, unquote_plus

from falcon import Request, Response

from master.access import Access
from master.web.signing import Door


@dataclass(frozen=True)
class PageResource:
    """A page: the shell of its name."""

    door: Door
    page: str
    access: Access = "open"
    any_host: bool = False

    def on_get(self, req: Request, resp: Response, **variables: int) -> None:
        """Answer with the page; with the token in the URL, sign in and take it out of there."""
        shown = req.get_param("token")
        if shown is None:
            self.door.shells.show(resp, self.page, **variables)
        else:
            self.door.enter(req, resp, shown, _without_token(req))


def _without_token(req: Request) -> str:
    """Return path and query of a request, but for the token, as they go into Location."""
    kept = "&".join(part for part in req.query_string.split("&") if not _is_token(part))
    return quote(f"{req.path}?{kept}" if kept else req.path, safe=string.punctuation)


def _is_token(part: str) -> bool:
    return unquote_plus(part.partition("=")[0]) == "token"
