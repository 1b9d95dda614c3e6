"""Transport of gRPC: its library, the port and its limits, TLS, and the handlers of calls."""
