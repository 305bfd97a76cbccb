"""Products of spikes and weights: signs, exact products on bits and bytes, convolutions with their pool."""
