"""Sources: MLflow, TensorBoard, MLPerf's logging, PyTorch, and the original MLBench's library."""
