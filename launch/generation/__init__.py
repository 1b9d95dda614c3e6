"""Generation on the command line: prompts, and texts as they come."""
