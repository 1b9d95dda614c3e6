"""Rank of mpirun, for `rankmesh launch`: fills in its arguments and becomes the user's script."""

from __future__ import annotations

import os
import selectors
import signal
import sys

import msgspec

from ...comm.job.identity import detect
from ...comm.job.rank import Rank
from ...comm.processes.rank_main import set_parent_death_signal
from ..options.user_files import read_rank_table
from .rank_environment import rank_variables, replaced

_CHUNK = 1 << 16


def main() -> None:
    """Replace this process by `python PROGRAM` with this rank's variables.

    A folder for log files and a rank table, or "" for either, come before PROGRAM.
    """
    set_parent_death_signal(os.getppid())  # mpirun, which cannot end its ranks when it is killed
    log_dir, table, *program = sys.argv[1:]
    rank, devices = _with_devices(detect().rank, table)
    os.environ.update(rank_variables(rank, devices, table or None, os.environ))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # mpirun's own pipe to rank 0 may never end
    if log_dir:
        _log_to(os.path.join(log_dir, f"rank_{rank.rank}.log"))
    os.execv(sys.executable, [sys.executable, *replaced(program, rank)])


def _with_devices(rank: Rank, table: str) -> tuple[Rank, list[int]]:
    """The rank with its device, and the devices of all ranks on its host, in rank order."""
    if not table:
        return rank, list(range(rank.local_size))
    content = read_rank_table(table)
    server = content.server_of(rank.rank)
    devices = [content.device_of(r).device_id for r in server.ranks]
    return msgspec.structs.replace(rank, device=content.device_of(rank.rank).device_id), devices


def _log_to(path: str) -> None:
    """Copy all that this process prints from now on to `path`, line by line, also beyond exec.

    A child copies it, and ends with the last process that prints.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)  # on another host than mpirun's, say
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    pipes = {stream: os.pipe() for stream in (1, 2)}
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
    """Copy each pipe to its stream at once, and to the file that they share in whole lines."""
    rest = dict.fromkeys(streams, b"")
    with selectors.DefaultSelector() as selector:
        for readable in streams:
            selector.register(readable, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                data = os.read(key.fd, _CHUNK)
                whole = rest[key.fd] + data
                done = whole.rfind(b"\n") + 1 if data else len(whole)
                rest[key.fd] = whole[done:]
                os.write(file, whole[:done])
                os.write(streams[key.fd], data)
                if not data:
                    selector.unregister(key.fd)


if __name__ == "__main__":
    main()
