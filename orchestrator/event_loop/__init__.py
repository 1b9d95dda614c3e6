"""An orchestrator's event loop: the one thread that waits, its regular tasks, and TERM."""
