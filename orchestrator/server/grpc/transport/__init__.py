"""Transport of gRPC: the address and limits of its port, and its TLS credentials."""
