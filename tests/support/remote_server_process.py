"""A rendezvous server of two ranks on several hosts, in a process of its own with few descriptors.

It ends with its input. The first line of input has the port and the keys, as JSON.
"""

from __future__ import annotations

import json
import resource
import sys

from rankmesh.comm.job.rank import Rank
from rankmesh.comm.rendezvous.address import RendezvousAddress
from rankmesh.comm.rendezvous.remote_rendezvous_server import RemoteRendezvousServer
from rankmesh.comm.transport.curve_server import CurveServer
from rankmesh.comm.transport.key_file import Keys

DESCRIPTORS = 1024


def main() -> None:
    port, *keys = json.loads(sys.stdin.readline())
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    server = RemoteRendezvousServer(
        CurveServer("127.0.0.1", port, Keys(*keys), 2),
        Rank(0, 2, 0, 1, "host0", 0),
        RendezvousAddress("127.0.0.1", port, "a job"),
        "rank 0",
        60.0,
    )
    server.start()
    print("ready", flush=True)
    sys.stdin.read()
    server.close()


if __name__ == "__main__":
    main()
