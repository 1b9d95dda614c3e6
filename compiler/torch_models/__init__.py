"""Models of PyTorch: collectives that a torch module calls, run at once or exported to ONNX."""
