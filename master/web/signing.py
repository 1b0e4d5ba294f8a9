"""Signing in and out: who shows the token gets a session, which opens what the token does."""

import string
import time
from dataclasses import dataclass
from urllib.parse import quote

import falcon
from falcon import Request, Response
from pydantic import BaseModel

from master.access import SESSION_SECONDS, Access, cookie_name, is_token, make_session
from master.http import read_body
from master.web.shells import Shells

_FIRST_PAGE = "/"


@dataclass(frozen=True)
class Door:
    """Lets in who shows the token, and out again."""

    shells: Shells
    token: str
    https: bool
    """Whether browsers reach the master by https, even where a proxy reaches it by http."""

    def enter(self, req: Request, resp: Response, shown: str, then: str) -> None:
        """Sign in, and lead on to the path ``then`` (303); or show the form again (401)."""
        if not is_token(shown.strip(), self.token):
            self.ask(resp, then, problem="That is not the token of this master.")
            resp.status = falcon.HTTP_401
            # No Basic: browsers would open a dialog of their own over the page.
            resp.set_header("WWW-Authenticate", 'Bearer realm="mlbench"')
            return
        self._set_cookie(req, resp, make_session(self.token, time.time()), SESSION_SECONDS)
        self.shells.lead(resp, then)

    def leave(self, req: Request, resp: Response) -> None:
        """Delete the cookie, and lead to the form for the token (303)."""
        # Falcon takes 0 for nothing said.
        self._set_cookie(req, resp, "", max_age=-1)
        self.shells.lead(resp, "/signin")

    def ask(self, resp: Response, then: str, problem: str = "") -> None:
        """Show the form for the token."""
        self.shells.show(resp, "signin", then=then, problem=problem)

    def _set_cookie(self, req: Request, resp: Response, session: str, max_age: int) -> None:
        resp.set_cookie(
            cookie_name(req.port),
            session,
            max_age=max_age,
            path="/",
            secure=self.https or req.scheme == "https",
            http_only=True,
            same_site="Strict",
        )


class SignInForm(BaseModel):
    """What the form sends."""

    token: str = ""
    next: str = _FIRST_PAGE


@dataclass(frozen=True)
class SignInResource:
    """``/signin``: the form for the token."""

    door: Door
    access: Access = "open"
    any_host: bool = False

    def on_get(self, req: Request, resp: Response) -> None:
        """Answer with the form; with the token in the URL, sign in."""
        then = path_of_ours(req.get_param("next", default=_FIRST_PAGE))
        shown = req.get_param("token")
        if shown is None:
            self.door.ask(resp, then)
        else:
            self.door.enter(req, resp, shown, then)

    def on_post(self, req: Request, resp: Response) -> None:
        """Sign in, and lead to where the user wanted to go."""
        form = read_body(req, SignInForm)
        self.door.enter(req, resp, form.token, path_of_ours(form.next))


@dataclass(frozen=True)
class SignOutResource:
    """``/signout``: the end of a session."""

    door: Door
    access: Access = "open"
    any_host: bool = False

    def on_post(self, req: Request, resp: Response) -> None:
        """Delete the cookie, and lead to the form for the token."""
        self.door.leave(req, resp)


def path_of_ours(text: str) -> str:
    """Return a path as it goes into Location; the first page's, if it could lead elsewhere."""
    leads_here = text.startswith("/") and "//" not in text and "\\" not in text
    # Browsers leave out tabs and line breaks, so that two slashes may come together.
    if not (leads_here and text.isprintable()):
        return _FIRST_PAGE
    return quote(text, safe=string.punctuation)
