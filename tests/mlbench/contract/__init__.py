"""Tests of the contract package, which all components share."""
