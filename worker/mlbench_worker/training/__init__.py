"""Training code shared by the tasks: session, loop, gradient exchange, schedules, checkpoints."""
