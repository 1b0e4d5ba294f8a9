"""Tests of data sets in LIBSVM's format."""
