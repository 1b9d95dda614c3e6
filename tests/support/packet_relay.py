"""Packet relay: a process that is the cable between two network devices, and may be slow and lossy.

    python tests/support/packet_relay.py ONE TWO

It makes two TUN devices, says "ready", and carries what is sent into one out of the other. Each
line on standard input changes how: the seconds that a packet is under way, and the share that is
lost. It ends with its standard input, and the devices with it.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import sys
import time
from collections import deque
from contextlib import suppress
from random import Random

_TUN = "/dev/net/tun"
_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_LARGEST = 65536
_AT_ONCE = 64
"""Packets that one device gives before the other has its turn."""


def tun(name: str) -> int:
    """A descriptor of a new device. OSError where the machine does not allow it."""
    file = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK)
    try:
        fcntl.ioctl(file, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    except OSError:
        os.close(file)
        raise
    return file


class Direction:
    """Packets on their way from one device to another, in the order in which they were sent."""

    def __init__(self, source: int, target: int, rng: Random) -> None:
        self.source, self.target = source, target
        self._rng = rng
        self._under_way: deque[tuple[float, bytes]] = deque()

    def take(self, delay: float, lost: float) -> None:
        """Take the packets that were sent meanwhile."""
        with suppress(OSError):  # nothing more, or the device is down
            for _ in range(_AT_ONCE):
                packet = os.read(self.source, _LARGEST)
                if self._rng.random() >= lost:
                    self._under_way.append((time.monotonic() + delay, packet))

    def give(self) -> float:
        """Give the packets that have arrived; the seconds until the next one does."""
        while self._under_way:
            left = self._under_way[0][0] - time.monotonic()
            if left > 0:
                return left
            with suppress(OSError):  # the device is down
                os.write(self.target, self._under_way.popleft()[1])
        return 60.0


def relay(one: int, two: int) -> None:
    """Carry packets until standard input ends."""
    rng = Random(1)
    directions = Direction(one, two, rng), Direction(two, one, rng)
    delay = lost = 0.0
    while True:
        wait = min(direction.give() for direction in directions)
        ready, _, _ = select.select([one, two, sys.stdin], (), (), wait)
        if sys.stdin in ready:
            line = sys.stdin.readline()
            if not line:
                return
            delay, lost = map(float, line.split())
            print("changed", flush=True)
        for direction in directions:
            if direction.source in ready:
                direction.take(delay, lost)


if __name__ == "__main__":
    ends = [tun(name) for name in sys.argv[1:3]]
    print("ready", flush=True)
    relay(*ends)
