"""JAX and TensorFlow: the steps of official tasks as one compiled program, on CPUs."""
