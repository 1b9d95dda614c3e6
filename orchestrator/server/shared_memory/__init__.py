"""Shared memory of clients: regions that they register, for inputs and outputs."""
