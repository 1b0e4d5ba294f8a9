"""Tests of the client of the REST API."""
