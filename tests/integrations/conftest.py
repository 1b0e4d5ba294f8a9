"""Training with the real libraries, in runs on a real stack."""

import os

import pytest


@pytest.fixture(scope="session")
def integrations() -> str:
    """The Python that has the libraries."""
    python = os.environ.get("INTEGRATIONS")
    if not python:
        pytest.skip("$INTEGRATIONS is not set to what scripts/get-integrations.sh prints")
    return python
