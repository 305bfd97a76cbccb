"""The paper's table of temporal data: DVS128 Gesture and SHD."""
