"""The count loss as one kernel."""
