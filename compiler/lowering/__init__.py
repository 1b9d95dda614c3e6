"""Lowering: a MindIR model as one ONNX model, by a function for each primitive."""
