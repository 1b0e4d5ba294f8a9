"""Core fixtures for the tests of extensions."""

from tests.conftest import (
    client,
    empty_sqlite,
    one_certificate,
    prometheus_binary,
    stack,
)
from tests.integrations.conftest import integrations

__all__ = [
    "client",
    "empty_sqlite",
    "integrations",
    "one_certificate",
    "prometheus_binary",
    "stack",
]
