"""The routes of management: models are loaded, unloaded, and given new weights."""

from __future__ import annotations

from collections.abc import Sequence

from ..http.exchange import BadRequest, BodyStream, HttpResponse, json_response
from ..model_repository import ModelRepository, require_no_content
from .body_limits import small_body
from .infer_request import decoded
from .messages import ChangeWish, WeightsMessage, WeightsWish


async def manage(
    repository: ModelRepository, name: str, action: Sequence[str], body: BodyStream
) -> HttpResponse:
    """Answer a call behind `/v2/repository/models/NAME`."""
    content = await small_body(body)
    match action:
        case ["load"]:
            wish = decoded(content, ChangeWish) if content.strip() else ChangeWish()
            require_no_content(wish.parameters or {})
            await repository.load(name)
            return HttpResponse()
        case ["unload"]:
            await repository.unload(name)
            return HttpResponse()
        case ["weights"]:
            asked = decoded(content, WeightsWish)
            version = await repository.update_weights(name, asked.file, asked.delta)
            return json_response(WeightsMessage(version))
        case ["weights", "rollback"]:
            return json_response(WeightsMessage(await repository.rollback(name)))
    raise BadRequest(404, "there is no such call: expected load, unload, or weights.")
