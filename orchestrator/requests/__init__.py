"""Requests: their queue, batches, inputs, outputs, deadlines and results."""
