"""Analysis of trained networks: statistics of their spikes, figures, animations, pages."""
