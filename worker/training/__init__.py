"""What benchmark tasks share: distributed set-up, gradient exchange, the training loop."""
