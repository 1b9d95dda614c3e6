"""Reading MindIR files."""
