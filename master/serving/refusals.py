"""Answers to what never reaches the API: JSON like all of its errors."""

import json
import socket


def refusal(status: int, reason: str, message: str, *headers: str) -> bytes:
    """Return a whole answer, after which the connection is closed."""
    body = json.dumps({"status": status, "message": message})
    lines = [
        f"HTTP/1.1 {status} {reason}",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join([*lines, "", body]).encode("latin-1")


def write_json_error(sock: socket.socket, status_int: int, reason: str, mesg: str) -> None:
    """Answer a request that is no HTTP, as gunicorn's own function does in HTML."""
    sock.sendall(refusal(status_int, reason, mesg or reason))
