"""The ranks of a training, and the process of each: what data, training and tasks stand on."""
