"""Fixtures for training with the real libraries on a real stack."""

import os

import pytest


@pytest.fixture(scope="session")
def integrations() -> str:
    """The Python interpreter that has the libraries."""
    python = os.environ.get("INTEGRATIONS")
    if not python:
        pytest.skip("$INTEGRATIONS is not set to what scripts/get-integrations.sh prints")
    return python
