"""The ranks of a training, and the process of each rank. Used by data, training and tasks."""
