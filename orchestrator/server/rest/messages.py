"""Messages of the REST protocol: the JSON documents of requests and answers, as typed structs."""

from __future__ import annotations

from msgspec import Raw, Struct, field

Parameter = str | int | float | bool | None
Parameters = dict[str, Parameter]
Elements = list[object] | Raw


_NULL = Raw(b"null")


class InputMessage(Struct):
    """One input: `data` as it stands in the document, absent where the body has it in binary."""

    name: str
    shape: list[int]
    datatype: str
    parameters: Parameters | None = None
    data: Raw = field(default_factory=lambda: _NULL)

    @property
    def has_data(self) -> bool:
        """Whether its elements are in the document."""
        return self.data != _NULL


class OutputWish(Struct):
    """One output that is asked for."""

    name: str
    parameters: Parameters | None = None


class InferMessage(Struct):
    """The document of an inference request. Clients write null for what they leave out."""

    inputs: list[InputMessage] = field(default_factory=list)
    outputs: list[OutputWish] | None = None
    id: str | None = None
    parameters: Parameters | None = None


class OutputMessage(Struct, omit_defaults=True):
    """One output of an answer, with `data`, or with its size in binary among the parameters."""

    name: str
    datatype: str
    shape: list[int]
    parameters: Parameters = field(default_factory=dict)
    data: Elements | None = None


class AnswerMessage(Struct, omit_defaults=True):
    """The document of an answer."""

    model_name: str
    model_version: str
    outputs: list[OutputMessage]
    id: str = ""


class ServerMessage(Struct):
    """Metadata of the server."""

    name: str
    version: str
    extensions: tuple[str, ...]


class LiveMessage(Struct):
    """Whether the server answers."""

    live: bool


class ReadyMessage(Struct, omit_defaults=True):
    """Whether all models would answer a request now, or the one that is named."""

    ready: bool
    name: str = ""


class RegionWish(Struct):
    """Which shared memory a region is to be."""

    key: str
    byte_size: int
    offset: int = 0


class RegionMessage(Struct):
    """One registered region of shared memory."""

    name: str
    key: str
    offset: int
    byte_size: int


class IndexWish(Struct):
    """Which models of the repository are asked for."""

    ready: bool = False


class IndexEntry(Struct):
    """One version of a model of the repository, or a model that is not loaded, or changes."""

    name: str
    version: str
    state: str
    reason: str = ""


class ChangeWish(Struct):
    """A model that is to be loaded or unloaded."""

    parameters: dict[str, object] | None = None


class WeightsWish(Struct):
    """Weights that are to be updated: a file below the folder of weights."""

    file: str
    delta: bool = False


class WeightsMessage(Struct):
    """The updates of weights that are in effect."""

    weights_version: int
