"""The way in: streams, samples, remote write, delivery."""
