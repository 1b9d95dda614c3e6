"""Fused operators: those of onnxruntime's own domain as torch calls, one module for each family."""
