"""The steps of JAX and TensorFlow against those of PyTorch, and whole runs."""
