"""A small Grafana: a real HTTP server that holds requests against what Grafana's API documents.

Roles, required fields, conflicts, status codes and limits are as documented. Its faults are asked
for by a test.
"""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.master.grafana.rules import (
    ADMIN_ROLE,
    EDITOR_ROLE,
    VIEWER_ROLE,
    GrafanaState,
    RefusalError,
    Request,
    answer,
)

ADMIN, EDITOR, VIEWER = "glsa_admin", "glsa_editor", "glsa_viewer"
_ROLES = {ADMIN: ADMIN_ROLE, EDITOR: EDITOR_ROLE, VIEWER: VIEWER_ROLE}


class GrafanaServer:
    """Serves a state on a port of this machine, under ``path``."""

    def __init__(self, state: GrafanaState, port: int = 0, path: str = "") -> None:
        self.state = state
        handler = type("Handler", (_Handler,), {"state": state, "base": path})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}{path}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def serve(self) -> None:
        """Answer until the process ends."""
        self._server.serve_forever()

    def stop(self) -> None:
        """Answer no more."""
        self.state.ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # head and body in one packet
    state: GrafanaState
    base: str

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self._is_faulty():
            return
        path = urlsplit(self.path).path
        if not path.startswith(f"{self.base}/api/"):
            self._send(404, b"<html>this message is no JSON</html>", "text/html")
            return
        route = path.removeprefix(f"{self.base}/api")
        try:
            with self.state.lock:
                found, status = self._found(route, body), 200
        except RefusalError as refusal:
            found, status = refusal.body, refusal.code
        self.state.log.append((self.command, route, status))
        if self.state.fault == "drop after storing" and self.command == "POST":
            self.state.fault = ""
            self.close_connection = True
            return
        self._send(status, json.dumps(found).encode())

    def _is_faulty(self) -> bool:
        """Do what the test asked to go wrong; return whether that was the answer."""
        match self.state.fault:
            case "hang":
                self.state.ended.wait(60)
                self.close_connection = True
            case "garbage":
                self._send(200, b"\x00\xff{not json", "text/html")
            case "error page":
                self._send(502, b"<html>a message of a proxy</html>", "text/html")
            case "list":
                self._send(200, b'["something", "else"]')
            case "500":
                self._send(500, b'{"message": "database is locked"}')
            case _:
                return False
        self.state.log.append((self.command, self.path, 0))
        return True

    def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _found(self, route: str, body: bytes) -> Any:
        if (self.command, route) == ("GET", "/health"):
            return {"commit": "0", "database": "ok", "version": "10.0.0"}
        return answer(self.state, self._request(route, body), self.base)

    def _request(self, route: str, body: bytes) -> Request:
        query = parse_qs(urlsplit(self.path).query)
        role = self._role()
        content = self._content(body) if self.command != "GET" else {}
        return Request(self.command, route, query, content, role)

    def _role(self) -> int:
        kind, _, value = self.headers.get("Authorization", "").partition(" ")
        if kind == "Bearer" and value in _ROLES:
            return _ROLES[value]
        if kind == "Basic":
            user, _, password = base64.b64decode(value).decode().partition(":")
            if self.state.passwords.get(user) == password:
                return ADMIN_ROLE
            raise RefusalError(401, "Invalid username or password")
        raise RefusalError(401, "Invalid API key")

    def _content(self, body: bytes) -> dict[str, Any]:
        if not self.headers.get("Content-Type", "").startswith("application/json"):
            raise RefusalError(400, "bad request data")
        try:
            content = json.loads(body)
        except ValueError:
            raise RefusalError(400, "bad request data") from None
        if not isinstance(content, dict):
            raise RefusalError(400, "bad request data")
        return content
