"""Pages, sign-in and sign-out: the token is exchanged for a session in a cookie.

Pages and runbooks need no session, because they contain no data: the API checks the session.
"""

import string
import time
from dataclasses import dataclass
from urllib.parse import quote, unquote_plus

import falcon
from falcon import Request, Response

from mlbench.local.assets import runbooks_folder
from mlbench_master.http.access import (
    SESSION_SECONDS,
    Access,
    cookie_name,
    find_caller,
    make_session,
)
from mlbench_master.http.bodies import read_body
from mlbench_master.web.rendering import PageRenderer


@dataclass(frozen=True)
class SignInForm:
    """Fields of the sign-in form."""

    token: str = ""
    next: str = ""


@dataclass(frozen=True)
class SignInResource:
    """``/signin``, the form for the token, and ``/signout``, which ends the session."""

    pages: PageRenderer
    token: str
    https: bool
    """Whether browsers use https, even if a proxy calls the master by http."""
    access: Access = "open"
    any_host: bool = False

    def on_get(self, req: Request, resp: Response) -> None:
        """Return the form. A token in the URL signs in."""
        then = local_path(req.get_param("next", default=""), self.pages.root)
        token = req.get_param("token")
        if token is None:
            self.pages.render(resp, "signin", then=then, problem="")
        else:
            self.sign_in(req, resp, token, then)

    def on_post(self, req: Request, resp: Response) -> None:
        """Sign in with the form's token."""
        form = read_body(req, SignInForm)
        self.sign_in(req, resp, form.token, local_path(form.next, self.pages.root))

    def on_post_out(self, req: Request, resp: Response) -> None:
        """Sign out: delete the cookie and redirect to the form."""
        # Not 0, because Falcon ignores it.
        self._set_cookie(req, resp, "", max_age=-1)
        self.pages.redirect(resp, f"{self.pages.root}/signin")

    def sign_in(self, req: Request, resp: Response, token: str, then: str) -> None:
        """Set a session and redirect to the path ``then``; for a wrong token, return 401."""
        caller = find_caller(token.strip(), self.token)
        if caller is None or caller.role == "record":
            problem = "That is not a token of a user of this master."
            self.pages.render(resp, "signin", then=then, problem=problem)
            resp.status = falcon.HTTP_401
            # Not Basic, because browsers would then open their own dialog over the page.
            resp.set_header("WWW-Authenticate", 'Bearer realm="mlbench"')
            return
        session, seconds = make_session(self.token, time.time()), SESSION_SECONDS
        if caller.holder:
            # A named token is its own session, which ends when the token is revoked.
            session, seconds = token.strip(), int(caller.expires_at - time.time())
        self._set_cookie(req, resp, session, seconds)
        self.pages.redirect(resp, then)

    def _set_cookie(self, req: Request, resp: Response, session: str, max_age: int) -> None:
        resp.set_cookie(
            cookie_name(req.port),
            session,
            max_age=max_age,
            path=self.pages.root or "/",
            secure=self.https or req.scheme == "https",
            http_only=True,
            same_site="Strict",
        )


@dataclass(frozen=True)
class PageResource:
    """A page, rendered from the template with its name."""

    sign_in: SignInResource
    page: str
    access: Access = "open"
    any_host: bool = False

    def on_get(self, req: Request, resp: Response, **variables: object) -> None:
        """Return the page. A token in the URL signs in, and is removed from the URL."""
        token = req.get_param("token")
        if token is None:
            self.sign_in.pages.render(resp, self.page, **variables)
        else:
            parts = [
                part
                for part in req.query_string.split("&")
                if unquote_plus(part.partition("=")[0]) != "token"
            ]
            path = self.sign_in.pages.root + req.path + "?" * bool(parts) + "&".join(parts)
            then = quote(path, safe=string.punctuation)
            self.sign_in.sign_in(req, resp, token, then)


@dataclass(frozen=True)
class RunbookResource:
    """``/docs/runbooks/{alert}.md``: the runbook of an alert, readable for everybody."""

    access: Access = "open"

    def on_get(self, req: Request, resp: Response, alert: str) -> None:
        """Return the Markdown as text, so that browsers show it."""
        path = runbooks_folder() / f"{alert}.md"
        if not alert.isidentifier() or not path.is_file():
            raise falcon.HTTPNotFound(description="alert not found")
        resp.content_type = "text/plain; charset=utf-8"
        resp.data = path.read_bytes()


def local_path(text: str, root: str = "") -> str:
    """Return a path below ``root``, percent-encoded; the home page if it could lead elsewhere."""
    home = f"{root}/"
    is_local = text.startswith(home) and "//" not in text and "\\" not in text
    # Browsers ignore tabs and line breaks, which may separate two slashes.
    if not (is_local and text.isprintable()):
        return home
    return quote(text, safe=string.punctuation)
