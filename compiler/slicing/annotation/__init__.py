"""Annotations: a plan in ONNX's own sharding specs, written on a model and read from it."""
