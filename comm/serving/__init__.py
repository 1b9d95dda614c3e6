"""What an orchestrator and its ranks have in common: memory for tensors, and orders."""
