"""A log file of what a rank prints, where mpirun and not we read its output."""

from __future__ import annotations

import os
import selectors
import signal

_CHUNK = 1 << 16
_STREAMS = (1, 2)


def log_to(path: str) -> None:
    """Have what this process will print written to `path` too, line by line, also beyond exec.

    A child copies it, and ends with the last that prints.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)  # on another host than mpirun's, say
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    pipes = {stream: os.pipe() for stream in _STREAMS}
    if os.fork() == 0:
        try:
            for _, writable in pipes.values():
                os.close(writable)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)  # the last words are still to come
            _copy({readable: stream for stream, (readable, _) in pipes.items()}, file)
        finally:
            os._exit(0)
    for stream, (readable, writable) in pipes.items():
        os.dup2(writable, stream)
        os.close(readable)
        os.close(writable)
    os.close(file)


def _copy(streams: dict[int, int], file: int) -> None:
    """From each pipe to its stream at once, and to the file in whole lines, as two streams share it."""
    rest = dict.fromkeys(streams, b"")
    with selectors.DefaultSelector() as selector:
        for readable in streams:
            selector.register(readable, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                data = os.read(key.fd, _CHUNK)
                lines, end, rest[key.fd] = (rest[key.fd] + data).rpartition(b"\n") if data else (rest[key.fd], b"", b"")
                os.write(file, lines + end)
                os.write(streams[key.fd], data)
                if not data:
                    selector.unregister(key.fd)
