"""URLs that contain a user and a password, such as ``http://user:password@host:9090/path``."""

import base64
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit


class Login(NamedTuple):
    """A user and a password, in the form of httpx's argument ``auth``."""

    user: str
    password: str

    @property
    def header(self) -> str:
        """Value of the header ``Authorization``."""
        return f"Basic {base64.b64encode(f'{self.user}:{self.password}'.encode()).decode()}"


def split_login(url: str) -> tuple[str, Login | None]:
    """Split a URL into the URL without login and final slash, and the login, or None."""
    parts = urlsplit(url)
    before, at, host = parts.netloc.rpartition("@")
    clean = parts._replace(netloc=host).geturl().rstrip("/")
    if not at:
        return clean, None
    user, _, password = before.partition(":")
    return clean, Login(unquote(user), unquote(password))


def origin_of(url: str) -> str:
    """Return a URL without login and path, which may be secret, for display."""
    parts = urlsplit(split_login(url)[0])
    return f"{parts.scheme}://{parts.netloc}"


def with_login(url: str, login: Login) -> str:
    """Return a URL with a login."""
    parts = urlsplit(url)
    userinfo = f"{quote(login.user, safe='')}:{quote(login.password, safe='')}"
    return parts._replace(netloc=f"{userinfo}@{parts.netloc}").geturl()
