"""Training steps of JAX and TensorFlow compared with PyTorch's, and whole runs."""
