"""Slicing: any ONNX graph as a plan for several ranks, proved, and written as shards."""
