"""Tests of request access, proxies and error responses."""
