"""The LLM engine, under the name that scripts import; see the package."""

from rankmesh.worker.llm.errors import LLMBlockOutOfMemory as LLMBlockOutOfMemory
from rankmesh.worker.llm.errors import LLMNoFreeBlocks as LLMNoFreeBlocks
from rankmesh.worker.llm.errors import LLMOutOfMemory as LLMOutOfMemory
from rankmesh.worker.llm.errors import LLMPrefixAlreadyExist as LLMPrefixAlreadyExist
from rankmesh.worker.llm.errors import LLMPrefixNotExist as LLMPrefixNotExist
from rankmesh.worker.llm.errors import LLMSeqLenOverLimit as LLMSeqLenOverLimit

from . import __dir__ as __dir__
from . import __getattr__ as __getattr__
