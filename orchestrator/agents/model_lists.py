"""Model lists: the files of models for agents, listed once by a child process while they hold."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ...comm.errors import ModelError, RankmeshError
from ...comm.transfer.model_files import ListedFiles, ListRequest, list_in_child
from ..event_loop.loop import EventLoopThread

Listed = Callable[[ListedFiles | RankmeshError], None]


class ModelLists:
    """For the loop's thread, which never waits for a child."""

    def __init__(self, loop: EventLoopThread) -> None:
        self._loop = loop
        self._found: dict[ListRequest, ListedFiles] = {}
        self._asked: dict[ListRequest, list[Listed]] = {}

    def ask(self, request: ListRequest, listed: Listed) -> None:
        """Call `listed` with the files, or the error: at once where they are known to hold."""
        found = self._found.get(request)
        if found is not None and all(one.stamp.holds for one in found.files):
            listed(found)
            return
        waiting = self._asked.setdefault(request, [])
        waiting.append(listed)
        if len(waiting) == 1:
            threading.Thread(
                target=self._list, args=(request,), name="rankmesh-model-list", daemon=True
            ).start()

    def _list(self, request: ListRequest) -> None:
        answer: ListedFiles | RankmeshError
        try:
            answer = list_in_child(request)
        except RankmeshError as error:
            answer = error
        except OSError as error:
            answer = ModelError(f"{request.pattern}: its files cannot be listed: {error}.")
        self._loop.call_soon(lambda: self._note(request, answer))

    def _note(self, request: ListRequest, answer: ListedFiles | RankmeshError) -> None:
        if isinstance(answer, ListedFiles):
            self._found[request] = answer
        for listed in self._asked.pop(request):
            listed(answer)
