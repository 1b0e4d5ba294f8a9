"""What unmodified code says in its own way, written into its worker's metrics file."""
