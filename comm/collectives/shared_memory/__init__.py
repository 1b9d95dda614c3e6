"""Backend of shared memory: collectives of the ranks of one host, in the arena of their job."""
