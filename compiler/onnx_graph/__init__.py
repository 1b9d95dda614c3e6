"""ONNX graphs: their values, types and collectives, and changes to them."""
