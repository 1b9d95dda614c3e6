"""The layout of images: onnxruntime optimizes segments together, which keeps it between them."""
