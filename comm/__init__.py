"""The only meeting place of orchestrator and worker: errors, rank identity, messages, collectives."""
