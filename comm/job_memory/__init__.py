"""Shared memory of a job: its arena, the progress of its ranks, and waiting on words."""
