"""Recording: streams, samples, indexing, blocks, export, remote write."""
