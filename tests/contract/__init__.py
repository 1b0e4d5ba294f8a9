"""Contract tests: the original MLBench's REST API, called over HTTP by third-party clients."""
