"""Expansion: fused and quantised operators become those of ONNX that they are made of."""
