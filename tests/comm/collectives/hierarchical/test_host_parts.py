"""Host parts of groups: leaders, hosts in the order of members, and disagreement."""

from __future__ import annotations

import msgspec
import pytest

from rankmesh.comm.collectives.hierarchical.host_parts import host_parts, meet_hosts
from rankmesh.comm.errors import RankFailed

pytestmark = pytest.mark.pure

HOSTS = ((0, 1, 2), (3, 4))


def test_parts_keep_the_order_of_members() -> None:
    parts = host_parts((4, 2, 0, 3), HOSTS)
    assert parts.hosts == ((4, 3), (2, 0))
    assert parts.leaders == (4, 2)
    assert [parts.host_of(rank) for rank in (4, 2, 0, 3)] == [0, 1, 1, 0]
    assert parts.worthwhile and not parts.on_one_host


@pytest.mark.parametrize(
    ("group", "one_host", "worthwhile"),
    [((2, 1), True, False), ((0, 4), False, False), ((0, 4, 1), False, True)],
)
def test_leaders_pay_where_a_host_has_several_members_of_several_hosts(
    group: tuple[int, ...], one_host: bool, worthwhile: bool
) -> None:
    parts = host_parts(group, HOSTS)
    assert (parts.on_one_host, parts.worthwhile) == (one_host, worthwhile)


def test_ranks_learn_the_hosts_of_all() -> None:
    said = [msgspec.msgpack.encode(host) for host in (HOSTS[0],) * 3 + (HOSTS[1],) * 2]
    assert meet_hosts(lambda _: said, frozenset(HOSTS[0])) == HOSTS


def test_ranks_that_disagree_about_their_hosts_are_told() -> None:
    said = [msgspec.msgpack.encode(host) for host in ((0, 1), (1,))]
    with pytest.raises(RankFailed, match=r"do not agree on which of them share a host.*\(0, 1\)"):
        meet_hosts(lambda _: said, frozenset((0, 1)))
