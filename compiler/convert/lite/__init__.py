"""Conversion to .ms: graphs of MindIR's primitives as MindSpore Lite's own files."""
