"""A rank that meets others of its host by a key, and does what it reads from standard input, line
by line.

It answers each line with JSON: what came of it, or the error that it raised, with which it ends
after its last line.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from rankmesh.comm.errors import RankmeshError
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.job_memory.progress import Stage
from rankmesh.comm.rendezvous.local_rendezvous import meet_locally
from rankmesh.comm.rendezvous.rendezvous import Rendezvous


def obey(line: str, meeting: Rendezvous) -> object:
    word, _, text = line.partition(" ")
    if word == "exchange":
        return [payload.decode() for payload in meeting.exchange(text.encode())]
    if word == "enter":
        meeting.enter(Stage[text])
    elif word == "fork":
        child = os.fork()
        if not child:
            signal.pause()
        return child
    elif word == "raise":
        raise ValueError(text)
    return None


def answer(found: object) -> None:
    print(json.dumps(found), flush=True)


def main() -> None:
    rank, world_size, key, timeout = json.loads(sys.argv[1])
    try:
        meeting = meet_locally(Rank(rank, world_size, rank, world_size, "here", rank), key, timeout)
        answer("met")
        for line in sys.stdin:
            answer(obey(line.rstrip("\n"), meeting))
    except RankmeshError as error:
        answer({type(error).__name__: str(error)})
        sys.stdin.read()
        raise


if __name__ == "__main__":
    main()
