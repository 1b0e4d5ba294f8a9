"""Tests of the REST API, by route."""
