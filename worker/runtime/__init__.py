"""The runtime of a program: its steps, buffers and states."""
