"""Sources: MLflow, TensorBoard, MLPerf's logging, and the original MLBench's library."""
