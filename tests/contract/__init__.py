"""The REST API as MLBench documented it, called over HTTP by clients that are not ours."""
