"""Tests of pages, static files and sign-in."""
