"""Serving: orders of an orchestrator and answers of its ranks, in shared memory."""
