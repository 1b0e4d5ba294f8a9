"""Tests of the REST API client."""
