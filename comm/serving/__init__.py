"""Serving: shared memory between an orchestrator and its ranks, for tensors and orders."""
