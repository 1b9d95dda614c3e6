"""The job of a rank: its identity, its place in the plan of ranks, its shard, its deadline."""
