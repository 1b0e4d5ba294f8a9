"""The whole system on a real cluster: `make e2e` runs these tests, a plain `pytest` does not."""
