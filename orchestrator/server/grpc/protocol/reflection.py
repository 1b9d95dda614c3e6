"""Messages of gRPC's server reflection: their classes; the stub has their fields."""

from .descriptors import messages_of

globals().update(messages_of("reflection.proto"))
