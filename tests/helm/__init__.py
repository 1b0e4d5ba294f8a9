"""Tests of the Helm chart's rendered manifests."""
