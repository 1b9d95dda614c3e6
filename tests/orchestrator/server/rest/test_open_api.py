"""The OpenAPI page, against the paths that the server answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served_http import ServerProcess, serving, tensor
from served_models import doubler

DOCUMENT = Path(__file__).parents[4] / "docs" / "serving.md"
MODEL = "/v2/models/{model}"
BODIES = {
    "/infer": {"inputs": [tensor("x", np.ones((1, 4), "f")), tensor("bias", np.ones(1, "f"))]},
    "/index": {"ready": True},
    "/register": {"key": "/none", "byte_size": 4},
}
REFUSED = ("/region/{region}/register", "/region/{region}/status")
"""Ends of paths that this server answers with an error, as it offers no shared memory. It offers no
management either.
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(doubler(tmp_path_factory.mktemp("models"))) as made:
        yield made


@pytest.fixture(scope="module")
def page(server: ServerProcess) -> Any:
    return server.get("/v2/openapi.json").json


def test_every_path_is_answered_as_the_page_says(server: ServerProcess, page: Any) -> None:
    names = {"model": "doubler", "version": "1", "region": "r"}
    for path, operations in page["paths"].items():
        for method, operation in operations.items():
            body = BODIES.get(path[path.rindex("/") :], {})
            place = path.format(**names)
            reply = server.post(place, body) if method == "post" else server.get(place)
            if path.endswith(REFUSED) or "/repository/models/" in path:
                assert "error" in reply.json and reply.status in (400, 403, 404), path
            else:
                assert reply.status == 200, (path, reply.body)
                check(page, operation["responses"]["200"], reply.body and reply)
            wrong = server.ask("PUT", place)
            assert wrong.status == 405, path


def check(page: Any, described: Any, reply: Any) -> None:
    """The document of an answer has the keys that its schema names, and no others."""
    content = described.get("content")
    assert bool(content) == bool(reply)
    if not reply or "application/json" not in content:
        return
    assert reply.headers["content-type"] in content
    schema, found = content["application/json"]["schema"], reply.json
    if schema.get("type") == "array":
        assert isinstance(found, list)
        schema, found = schema["items"], found[0] if found else None
    if found and "$ref" in schema:
        known = resolved(page, schema["$ref"])
        assert set(known.get("required", ())) <= found.keys() <= known["properties"].keys()


def resolved(page: Any, reference: str) -> Any:
    for part in reference.removeprefix("#/").split("/"):
        page = page[part]
    return page


def test_references_resolve_and_names_are_unique(page: Any) -> None:
    text = str(page)
    references = re.findall(r"'\$ref': '([^']+)'", text)
    assert len(references) > 30 and all(resolved(page, one) for one in references)
    operations = [(path, one) for path, all_ in page["paths"].items() for one in all_.values()]
    names = [one["operationId"] for _, one in operations]
    assert len(set(names)) == len(names)
    for path, one in operations:
        given = {each["name"] for each in one.get("parameters", ()) if each["in"] == "path"}
        assert given == set(re.findall(r"{(\w+)}", path))


def test_the_paths_of_the_documentation_are_on_the_page(page: Any) -> None:
    rows = re.findall(r"`(GET|POST) (/[^`]*)`", DOCUMENT.read_text())
    assert len(rows) > 12
    for method, path in rows:
        path = path.replace("/models/NAME", "/models/{model}").replace("NAME", "{region}")
        for one in {re.sub(r"\[.*?\]", "", path), re.sub(r"[\[\]]", "", path)}:
            assert method.lower() in page["paths"][one], one
