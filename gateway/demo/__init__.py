"""The story of one lost answer, told on the real processes."""
