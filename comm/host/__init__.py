"""Host facts: trusted folders, bounded files, limits of memory, identities of processes."""
