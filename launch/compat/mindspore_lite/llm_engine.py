"""The LLM engine, under the name that scripts import; see the package."""

from . import __dir__ as __dir__
from . import __getattr__ as __getattr__
