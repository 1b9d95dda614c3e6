"""A hub of a job of two ranks on several hosts in a process of its own, with few descriptors; it ends with its input.

Its first line of input has the port and the keys, as JSON.
"""

from __future__ import annotations

import json
import resource
import sys

from rankmesh.comm.curve_server import Server
from rankmesh.comm.key_file import Keys
from rankmesh.comm.place import Place
from rankmesh.comm.rank import Rank
from rankmesh.comm.remote_hub import RemoteHub

DESCRIPTORS = 1024


def main() -> None:
    port, *keys = json.loads(sys.stdin.readline())
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    hub = RemoteHub(Server("127.0.0.1", port, Keys(*keys), 2), Rank(0, 2, 0, 1, "host0", 0),
                    Place("127.0.0.1", port, "a job"), "rank 0", 60.0)
    hub.start()
    print("ready", flush=True)
    sys.stdin.read()
    hub.close()


if __name__ == "__main__":
    main()
