"""The routes of shared memory: regions are registered, told, and forgotten."""

from __future__ import annotations

from collections.abc import Sequence

from ..faults import UnsupportedCall
from ..http.exchange import BadRequest, BodyStream, HttpResponse, json_response
from ..shared_memory.client_regions import NO_CUDA, ClientRegions, require_all_cuda_regions
from .body_limits import small_body
from .infer_request import decoded
from .messages import RegionMessage, RegionWish

_SYSTEM = "systemsharedmemory"


async def shared_memory(
    regions: ClientRegions, kind: str, place: Sequence[str], body: BodyStream
) -> HttpResponse:
    """Answer one of the calls behind `/v2/systemsharedmemory` and `/v2/cudasharedmemory`."""
    match place:
        case [action]:
            name = ""
        case ["region", name, action] if name:
            pass
        case _:
            action = name = ""
    if action == "status":
        if kind == _SYSTEM:
            return json_response(_statuses(regions, name))
        require_all_cuda_regions(name)
        return json_response([])
    if action == "unregister":
        if kind == _SYSTEM:
            regions.unregister(name)
        return HttpResponse()
    if action == "register" and name:
        _require(kind, regions)
        wish = decoded(await small_body(body), RegionWish)
        regions.register(name, wish.key, wish.offset, wish.byte_size)
        return HttpResponse()
    raise BadRequest(404, "there is no such call of shared memory.")


def _statuses(regions: ClientRegions, name: str) -> list[RegionMessage]:
    return [RegionMessage(one.name, one.key, one.offset, one.size) for one in regions.listed(name)]


def _require(kind: str, regions: ClientRegions) -> None:
    if kind != _SYSTEM:
        raise UnsupportedCall(NO_CUDA)
    regions.require_offered()
