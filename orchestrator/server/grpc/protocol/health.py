"""Messages of gRPC's health checks: their classes; the stub has their fields."""

from .descriptors import messages_of

globals().update(messages_of("health.proto"))
