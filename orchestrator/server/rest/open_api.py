"""OpenAPI page: describes all paths of the REST protocol, with the schemas of their documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

import msgspec

from ..http.exchange import JSON_TYPE, ErrorMessage, HttpResponse
from ..model_pages import ModelConfig, ModelMessage, StatisticsPage
from ..page.overview import Overview
from .messages import (
    AnswerMessage,
    ChangeWish,
    IndexEntry,
    IndexWish,
    InferMessage,
    LiveMessage,
    ReadyMessage,
    RegionMessage,
    RegionWish,
    ServerMessage,
    WeightsMessage,
    WeightsWish,
)

Schema = dict[str, object]
_JSON = "application/json"
_BYTES = "application/octet-stream"
_REF = "#/components/schemas/{name}"


class Operation(NamedTuple):
    """One method of one path: the type of the document that is sent, and of the one that comes
    back.
    """

    method: str
    path: str
    summary: str
    answer: object = None
    sent: object = None
    media: tuple[str, ...] = (_JSON,)


_OF_SERVER = (
    Operation("get", "/v2", "Name, version and extensions of the server.", ServerMessage),
    Operation("get", "/v2/health/live", "Whether the server answers.", LiveMessage),
    Operation(
        "get", "/v2/health/ready", "Whether each model would answer a request now.", ReadyMessage
    ),
    Operation("get", "/v2/models/stats", "Statistics of all models.", StatisticsPage),
    Operation(
        "post", "/v2/repository/index", "All models, with state.", list[IndexEntry], IndexWish
    ),
    Operation("get", "/v2/trace/setting", "Settings of traces.", dict[str, object]),
    Operation("get", "/v2/logging", "Settings of the log.", dict[str, object]),
    Operation("get", "/v2/openapi.json", "This document.", dict[str, object]),
    Operation("get", "/overview", "Models, replicas, ranks and outages now.", Overview),
    Operation("get", "/", "A page that shows the overview.", str, media=("text/html",)),
    Operation("get", "/metrics", "Metrics for Prometheus.", str, media=("text/plain",)),
)
_OF_MODEL = (
    Operation("get", "", "Inputs and outputs of a model.", ModelMessage),
    Operation("get", "/ready", "Whether a model would answer a request now.", ReadyMessage),
    Operation(
        "post", "/infer", "The answer to a request.", AnswerMessage, InferMessage, (_JSON, _BYTES)
    ),
    Operation("get", "/config", "The configuration of a model.", ModelConfig),
    Operation("get", "/stats", "Statistics of a model.", StatisticsPage),
    Operation("get", "/trace/setting", "Settings of traces.", dict[str, object]),
)
_OF_MANAGEMENT = (
    Operation("post", "/load", "Loads a model, or a new version.", sent=ChangeWish),
    Operation("post", "/unload", "Unloads a model.", sent=ChangeWish),
    Operation("post", "/weights", "Updates weights from a file.", WeightsMessage, WeightsWish),
    Operation("post", "/weights/rollback", "Goes back to the weights before.", WeightsMessage),
)
_OF_MEMORY = (
    Operation("get", "/status", "Regions that are registered.", list[RegionMessage]),
    Operation("post", "/unregister", "Forgets one region, or all."),
)
_REGISTER = Operation("post", "/register", "Registers shared memory as a region.", sent=RegionWish)


def open_api_page(version: str) -> HttpResponse:
    """The page of a server of this version."""
    return HttpResponse(200, (_document(version),), (JSON_TYPE,))


@cache
def _document(version: str) -> bytes:
    described = {"openapi": "3.1.0", "info": _about(version), **_described(_operations())}
    return msgspec.json.encode(described)


def _about(version: str) -> dict[str, str]:
    text = "Open Inference Protocol, version 2, with the extensions that /v2 lists."
    return {"title": "Rankmesh", "version": version, "description": text}


def _operations() -> list[Operation]:
    found = [*_OF_SERVER]
    for root in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
        found += _below(root, _OF_MODEL)
    found += _below("/v2/repository/models/{model}", _OF_MANAGEMENT)
    for kind in ("system", "cuda"):
        root = f"/v2/{kind}sharedmemory"
        found += _below(root, _OF_MEMORY)
        found += _below(f"{root}/region/{{region}}", (*_OF_MEMORY, _REGISTER))
    return found


def _below(root: str, operations: Iterable[Operation]) -> list[Operation]:
    return [one._replace(path=f"{root}{one.path}") for one in operations]


def _described(operations: Iterable[Operation]) -> Schema:
    """The paths, and the components that they refer to."""
    operations = list(operations)
    types = [ErrorMessage, *{one for op in operations for one in (op.answer, op.sent) if one}]
    made, components = msgspec.json.schema_components(types, schema_hook=_any, ref_template=_REF)
    schemas = dict(zip(types, made, strict=True))
    paths: dict[str, Schema] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method] = _operation(one, schemas)
    return {"paths": paths, "components": {"schemas": components}}


def _any(_: type) -> Schema:
    """The schema of elements that may be anything."""
    return {"description": "Any value."}


def _operation(one: Operation, schemas: Mapping[object, Schema]) -> Schema:
    name = re.sub(r"\W+", "_", f"{one.method}{one.path}").strip("_")
    found: Schema = {
        "operationId": name,
        "summary": one.summary,
        "responses": _responses(one, schemas),
    }
    given = [_parameter("path", name) for name in re.findall(r"{(\w+)}", one.path)]
    if _BYTES in one.media:
        given.append(_parameter("header", "Inference-Header-Content-Length"))
    if given:
        found["parameters"] = given
    if one.sent:
        found["requestBody"] = {"content": _content(one.media, schemas[one.sent])}
    return found


def _responses(one: Operation, schemas: Mapping[object, Schema]) -> Schema:
    answered: Schema = {"description": one.summary}
    if one.answer:
        answered["content"] = _content(one.media, schemas[one.answer])
    error = {"description": "An error.", "content": _content((_JSON,), schemas[ErrorMessage])}
    found: Schema = {"200": answered, "default": error}
    if one.path.endswith("/ready"):
        found["503"] = {**answered, "description": "It would not."}
    return found


def _content(media: Iterable[str], schema: Schema) -> Schema:
    """Documents in JSON or text have a schema; in binary the tensors follow the document."""
    return {kind: {} if kind == _BYTES else {"schema": schema} for kind in media}


def _parameter(place: str, name: str) -> Schema:
    kind = "string" if place == "path" else "integer"
    return {"name": name, "in": place, "required": place == "path", "schema": {"type": kind}}
