"""One rank: from a model shard to numbers."""
