"""What trained networks do: statistics of their spikes, figures, animations, pages."""
