"""The pages, and signing in and out: the token is exchanged for a session in a cookie.

Pages are open to all, as they hold no data: the API asks for the session. So are the runbooks.
"""

import string
import time
from dataclasses import dataclass
from urllib.parse import quote, unquote_plus

import falcon
from falcon import Request, Response
from pydantic import BaseModel

from mlbench.local.assets import runbooks_folder
from mlbench_master.http.access import SESSION_SECONDS, Access, cookie_name, is_token, make_session
from mlbench_master.http.bodies import read_body
from mlbench_master.web.rendering import PageRenderer

_FIRST_PAGE = "/"


class SignInForm(BaseModel):
    """The fields of the form."""

    token: str = ""
    next: str = _FIRST_PAGE


@dataclass(frozen=True)
class SignInResource:
    """``/signin``, the form that asks for the token, and ``/signout``, the end of a session."""

    pages: PageRenderer
    token: str
    https: bool
    """Whether browsers reach the master by https, even if a proxy reaches it by http."""
    access: Access = "open"
    any_host: bool = False

    def on_get(self, req: Request, resp: Response) -> None:
        """Answer with the form. A token in the URL signs in."""
        then = local_path(req.get_param("next", default=_FIRST_PAGE))
        token = req.get_param("token")
        if token is None:
            self.pages.render(resp, "signin", then=then, problem="")
        else:
            self.sign_in(req, resp, token, then)

    def on_post(self, req: Request, resp: Response) -> None:
        """Sign in with the form's token."""
        form = read_body(req, SignInForm)
        self.sign_in(req, resp, form.token, local_path(form.next))

    def on_post_out(self, req: Request, resp: Response) -> None:
        """Sign out: delete the cookie and redirect to the form."""
        # Falcon ignores 0.
        self._set_cookie(req, resp, "", max_age=-1)
        self.pages.redirect(resp, "/signin")

    def sign_in(self, req: Request, resp: Response, token: str, then: str) -> None:
        """Set a session and redirect to the path ``then``; with a wrong token, ask again (401)."""
        if not is_token(token.strip(), self.token):
            problem = "That is not the token of this master."
            self.pages.render(resp, "signin", then=then, problem=problem)
            resp.status = falcon.HTTP_401
            # Not Basic: browsers would open a dialog of their own over the page.
            resp.set_header("WWW-Authenticate", 'Bearer realm="mlbench"')
            return
        self._set_cookie(req, resp, make_session(self.token, time.time()), SESSION_SECONDS)
        self.pages.redirect(resp, then)

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


@dataclass(frozen=True)
class PageResource:
    """A page: the template of its name."""

    sign_in: SignInResource
    page: str
    access: Access = "open"
    any_host: bool = False

    def on_get(self, req: Request, resp: Response, **variables: object) -> None:
        """Answer with the page. A token in the URL signs in, and is removed from the URL."""
        token = req.get_param("token")
        if token is None:
            self.sign_in.pages.render(resp, self.page, **variables)
        else:
            self.sign_in.sign_in(req, resp, token, _path_without_token(req))


@dataclass(frozen=True)
class RunbookResource:
    """``/docs/runbooks/{alert}.md``: what to do about an alert. Everybody may read it."""

    access: Access = "open"

    def on_get(self, req: Request, resp: Response, alert: str) -> None:
        """Answer with the Markdown, as text that a browser shows."""
        path = runbooks_folder() / f"{alert}.md"
        if not alert.isidentifier() or not path.is_file():
            raise falcon.HTTPNotFound(description="there is no alert of this name")
        resp.content_type = "text/plain; charset=utf-8"
        resp.data = path.read_bytes()


def local_path(text: str) -> str:
    """Return a path of this master, percent-encoded; "/" if it could lead to another site."""
    is_local = text.startswith("/") and "//" not in text and "\\" not in text
    # Browsers ignore tabs and line breaks, which may separate two slashes.
    if not (is_local and text.isprintable()):
        return _FIRST_PAGE
    return quote(text, safe=string.punctuation)


def _path_without_token(req: Request) -> str:
    parts = req.query_string.split("&")
    kept = "&".join(one for one in parts if unquote_plus(one.partition("=")[0]) != "token")
    return quote(f"{req.path}?{kept}" if kept else req.path, safe=string.punctuation)
