"""The normal form of ONNX models: what every reader of a file may take for granted."""
