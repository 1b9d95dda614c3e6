"""Messages of Triton's model configuration: their classes; the stub has their fields."""

from .descriptors import enums_of, messages_of

globals().update(messages_of("model_config.proto"))
globals().update(enums_of("model_config.proto"))
