"""The version, under the name that scripts import."""

from . import __version__ as __version__
