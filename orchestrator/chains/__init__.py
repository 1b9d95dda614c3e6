"""Chains: requests that pass several models, whose tensors stay in shared memory."""
