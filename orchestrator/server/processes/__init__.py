"""Server processes: answer clients beside each other, for the orchestrator of their parent."""
