"""Operators of ONNX as torch calls: one module for each family, all imported when torch runs."""
