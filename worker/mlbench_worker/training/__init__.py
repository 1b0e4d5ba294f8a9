"""What benchmark tasks share: options, ranks and devices, gradient exchange, checkpoints, loop."""
