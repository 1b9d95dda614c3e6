"""Memory of requests: the arena of tensors that an orchestrator and its ranks share."""
