"""gRPC of the server: the Open Inference Protocol, health checks and reflection."""
