"""Normal form of ONNX models: brings each file to it, so that all readers agree."""
