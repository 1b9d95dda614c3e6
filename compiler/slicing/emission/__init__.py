"""Emission: the graphs of all ranks as a plan says, and trials of them."""
