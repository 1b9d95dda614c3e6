"""Model files: each is loaded as one ONNX model whose collectives are nodes."""
