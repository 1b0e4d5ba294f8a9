"""Asking Grafana's HTTP API, with errors that tell the user what to do."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import requests
from grafana_api.grafana_api import GrafanaException
from grafana_api.grafana_face import GrafanaFace

from mlbench.errors import MLBenchError

_NOT_FOUND = 404
_SERVER_ERROR = 500
_ANNOTATIONS_READ = 100

_ADVICE = {
    401: "it does not know the token: give one of a service account, or user:password",
    403: "the token lacks a right: it takes the role Admin, or Editor for annotations alone",
    404: "it does not have what was asked for",
    409: "something else there has that name or uid",
    412: "something else there has that name or uid, or it was changed at the same time",
}
_PROVISIONED = (
    "it comes from Grafana's provisioning files, and can be changed there only: "
    "update these files, or take it out of them"
)


class GrafanaError(MLBenchError):
    """Grafana did not do what it was asked to; the text is for the user."""


class UnavailableError(GrafanaError):
    """Nothing there answers as Grafana does: it may be down, or the address is another's."""


class RefusedError(GrafanaError):
    """Grafana answers that it will not do this."""


class Grafana:
    """One Grafana, as the owner of a token sees it. Close it after use."""

    def __init__(
        self,
        url: str,
        token: str,
        count: Callable[[str], None] = lambda outcome: None,
        timeout_seconds: float = 5.0,
    ) -> None:
        """Take the address of Grafana's first page.

        Args:
            url: with the path under which Grafana is served, if there is one.
            token: a service account's, or ``user:password``.
            count: is told the outcome of each request: "done" or "failed".
            timeout_seconds: how long to wait for a connection, and then for each part of an answer.

        Raises:
            GrafanaError: there is no token, or the address is none.
        """
        self.url = url.rstrip("/")
        self._count = count
        self._timeout = timeout_seconds
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
            raise GrafanaError(
                "Grafana's address must be like http://HOST:3000 or https://HOST/grafana, "
                "without a password"
            )
        if not token.strip():
            raise GrafanaError(f"no token for Grafana at {url}: set $GRAFANA_TOKEN")
        path = parts.path.strip("/")
        self._face = GrafanaFace(
            _credentials(token.strip()),
            host=parts.netloc,
            url_path_prefix=f"{path}/" if path else "",
            protocol=parts.scheme,
            timeout=timeout_seconds,
        )
        # Followed, a redirect would make a GET of a POST.
        self._face.api.s.max_redirects = 0

    def close(self) -> None:
        """Close the connections."""
        self._face.api.s.close()

    def check(self) -> None:
        """Make sure that Grafana is there.

        Raises:
            UnavailableError: it is not, or it does not work.
        """
        try:
            answer = self._ask("its health", lambda: self._face.api.GET("/health"))
        except RefusedError as error:
            raise UnavailableError(f"there is no Grafana at {self.url}: {error}") from error
        if "database" not in self._object(answer):
            raise UnavailableError(f"there is no Grafana at {self.url}: it answers {answer}")

    def find_folder(self, uid: str) -> dict[str, Any] | None:
        """Return a folder, if it is there."""
        return self._find("the folder", lambda: self._face.folder.get_folder(uid))

    def create_folder(self, uid: str, title: str) -> None:
        """Make a folder."""
        self._ask(f"the folder {title}", lambda: self._face.folder.create_folder(title, uid))

    def data_sources(self) -> list[dict[str, Any]]:
        """Return the data sources, without what only one's own page tells."""
        return self._objects(self._ask("the data sources", self._face.datasource.list_datasources))

    def find_data_source(self, uid: str) -> dict[str, Any] | None:
        """Return all of a data source but its secrets, if it is there."""
        path = f"/datasources/uid/{uid}"
        return self._find("the data source", lambda: self._face.api.GET(path))

    def create_data_source(self, content: Mapping[str, Any]) -> None:
        """Make a data source."""
        what = f"the data source {content['name']}"
        self._ask(what, lambda: self._face.datasource.create_datasource(content))

    def update_data_source(self, uid: str, content: Mapping[str, Any]) -> None:
        """Replace all of a data source but its secrets, its uid too."""
        what, path = f"the data source {content['name']}", f"/datasources/uid/{uid}"
        self._ask(what, lambda: self._face.api.PUT(path, json=content))

    def find_dashboard(self, uid: str) -> dict[str, Any] | None:
        """Return a dashboard as ``{"dashboard": …, "meta": …}``, if it is there."""
        return self._find("the dashboard", lambda: self._face.dashboard.get_dashboard(uid))

    def last_message(self, uid: str) -> str:
        """Return what was said when a dashboard was saved last; empty if nothing was."""
        path = f"/dashboards/uid/{uid}/versions?limit=1"
        answer = self._ask("its versions", lambda: self._face.api.GET(path), may_be_missing=True)
        # Newer versions of Grafana put the list into an object.
        listed = answer.get("versions") if isinstance(answer, dict) else answer
        return next((str(one.get("message")) for one in self._objects(listed or [])), "")

    def save_dashboard(self, dashboard: Mapping[str, Any], folder_uid: str, message: str) -> None:
        """Make a dashboard, or a new version of the one with its uid."""
        content = {
            "dashboard": {**dashboard, "id": None},
            "folderUid": folder_uid,
            "message": message,
            "overwrite": True,
        }
        what = f"the dashboard {dashboard['uid']}"
        self._ask(what, lambda: self._face.dashboard.update_dashboard(content))

    def annotations(self, tags: Iterable[str], from_ms: int, to_ms: int) -> list[dict[str, Any]]:
        """Return the annotations, 100 at most, that have all tags and lie in a span of time."""
        found = self._ask(
            "the annotations",
            lambda: self._face.annotations.get_annotation(
                time_from=from_ms, time_to=to_ms, tags=tags, limit=_ANNOTATIONS_READ
            ),
        )
        return self._objects(found)

    def annotate(self, time_ms: int, tags: Iterable[str], text: str) -> None:
        """Add an annotation that every dashboard can show. The text is HTML."""
        self._ask(
            "an annotation",
            lambda: self._face.annotations.add_annotation(
                time_from=time_ms, tags=list(tags), text=text
            ),
        )

    def _find(self, what: str, call: Callable[[], Any]) -> dict[str, Any] | None:
        answer = self._ask(what, call, may_be_missing=True)
        return None if answer is None else self._object(answer)

    def _ask(self, what: str, call: Callable[[], Any], *, may_be_missing: bool = False) -> Any:
        """Return what Grafana answers; nothing if it does not have what may be missing."""
        try:
            answer = call()
        except GrafanaException as error:
            if may_be_missing and error.status_code == _NOT_FOUND:
                self._count("done")
                return None
            self._count("failed")
            raise _explain(self.url, what, error) from error
        # The package trips over an error's text that is no JSON and has "message" in it.
        except (requests.RequestException, ValueError, TypeError) as error:
            self._count("failed")
            raise UnavailableError(_unreachable(self.url, error, self._timeout)) from error
        self._count("done")
        return answer

    def _object(self, answer: Any) -> dict[str, Any]:
        if not isinstance(answer, dict):
            raise UnavailableError(_unexpected(self.url))
        return answer

    def _objects(self, answer: Any) -> list[dict[str, Any]]:
        if not isinstance(answer, list):
            raise UnavailableError(_unexpected(self.url))
        return [self._object(item) for item in answer]


def _credentials(token: str) -> str | tuple[bytes, bytes]:
    user, colon, password = token.partition(":")
    return (user.encode(), password.encode()) if colon else token


def _explain(url: str, what: str, error: GrafanaException) -> GrafanaError:
    status, said = error.status_code, str(error.message)
    if status >= _SERVER_ERROR:
        return UnavailableError(f"Grafana at {url} does not work now: {said}")
    advice = _PROVISIONED if _is_provisioned(said) else _ADVICE.get(status)
    explained = f"{advice} ({said})" if advice else said
    return RefusedError(f"Grafana at {url} refuses {what}: {explained}")


def _is_provisioned(said: str) -> bool:
    return "provisioned" in said or "read-only" in said


def _unreachable(url: str, error: Exception, timeout_seconds: float) -> str:
    match error:
        case requests.TooManyRedirects(response=response) if response is not None:
            return f"{url} leads to {response.headers.get('Location')}: give that address"
        case requests.Timeout():
            return f"Grafana at {url} does not answer within {timeout_seconds:g} s"
        case requests.exceptions.SSLError():
            return (
                f"the certificate of {url} is not trusted: name the file of its authority in "
                "$REQUESTS_CA_BUNDLE"
            )
        case requests.ConnectionError():
            return f"Grafana at {url} cannot be reached"
        case _:
            return _unexpected(url)


def _unexpected(url: str) -> str:
    return f"there is no Grafana at {url}: it answers as Grafana does not"
