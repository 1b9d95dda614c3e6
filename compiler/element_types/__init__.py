"""Element types of tensors: the names that MindIR, numpy and ONNX give them, and typed shapes."""
