"""MindIR files that are written: graphs of primitives, their constants and types, their weights."""
