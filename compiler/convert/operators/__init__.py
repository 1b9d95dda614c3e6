"""Operators: turn those of ONNX into MindSpore's primitives, one module for each family."""
