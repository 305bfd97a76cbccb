"""The paper's temporal coding task (Fig. 4): one output neuron learns to fire once, at a target time."""
