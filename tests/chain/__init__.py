"""The whole chain, with real processes: from a training step to a sample in Prometheus."""
