"""Messages of the Open Inference Protocol: their classes; the stub has their fields."""

from .descriptors import messages_of

globals().update(messages_of("inference.proto"))
