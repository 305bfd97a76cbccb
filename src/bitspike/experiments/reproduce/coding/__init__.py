"""The temporal coding task (Fig. 4)."""
