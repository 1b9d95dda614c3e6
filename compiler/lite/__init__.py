"""MindSpore Lite's own files (.ms): FlatBuffers, read as graphs of primitives, and written."""
