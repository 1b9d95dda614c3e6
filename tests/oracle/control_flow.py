"""Exports networks with branches, loops, closures, tuples and state, and records what MindSpore
computes with them.

Runs in an environment of its own that has mindspore (and no Rankmesh):

    python tests/oracle/control_flow.py tests/data/mindir [NAME ...]
    msrun --worker_num=2 --local_worker_num=2 --join=True tests/oracle/control_flow.py tests/data/mindir --ranks

Each network gets a folder NAME with NAME.mindir and NAME.npz (`in_0`.., `out_0`.., in order, tuples flattened), then
NAME_2.npz and so on for further inputs. Those of a network called state_* are successive calls of one network. With
--ranks the processes are the ranks of a network with collectives in a loop, and each writes its own shard.
"""  # noqa: E501

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mutable, nn, ops

Array = np.ndarray


def normal(*shape: int) -> Array:
    """The same random numbers for the same shape."""
    return np.random.default_rng(sum(shape) + 1).standard_normal(shape).astype(np.float32)


def i32(value: Any) -> Array:
    """An int32 array."""
    return np.array(value, np.int32)


def zero() -> Tensor:
    """A 0-d int32 zero, as a counter starts."""
    return Tensor(0, ms.int32)


class WhileNested(nn.Cell):
    def construct(self, x, n, m):
        i = zero()
        while i < n:
            j = zero()
            while j < m:
                x = x * 0.9 + ops.cast(j, ms.float32)
                j = j + 1
            x = x - ops.cast(i, ms.float32)
            i = i + 1
        return x, i


class WhileThree(nn.Cell):
    """Three loops inside each other, with a way out of all of them."""

    def construct(self, x, n):
        i = zero()
        count = zero()
        while i < n:
            j = zero()
            while j < n:
                k = zero()
                while k < n:
                    if count > 20:
                        return x * 2, count
                    if i == j:
                        break
                    x = x + 0.25
                    k = k + 1
                    count = count + 1
                j = j + 1
                if j == 2:
                    continue
                x = x * 1.01
            i = i + 1
        return x, count


class LoopsInARow(nn.Cell):
    def construct(self, x, n):
        i = zero()
        while i < n:
            x = x * 1.5
            i = i + 1
        if x.max() > 4:
            x = x - 4
        while i > 0:
            x = ops.relu(x) + 0.1
            if x.min() > 0:
                break
            i = i - 1
        return x, i


class WhileIf(nn.Cell):
    def __init__(self):
        super().__init__()
        self.d = nn.Dense(4, 4)

    def construct(self, x, n):
        i = zero()
        while i < n:
            if x.sum() > 0:
                x = self.d(x) - 1
            else:
                x = ops.relu(x) + 2
            i = i + 1
        return x


class WhileBreak(nn.Cell):
    def construct(self, x, n):
        i = zero()
        while i < n:
            x = x * 2
            if x.sum() > 10:
                break
            x = x + 1
            i = i + 1
        return x, i


class WhileContinue(nn.Cell):
    def construct(self, x, n):
        i = zero()
        while i < n:
            i = i + 1
            if i % 2 == 0:
                continue
            x = x + ops.cast(i, ms.float32)
        return x


class WhileReturn(nn.Cell):
    def construct(self, x, n):
        i = zero()
        while i < n:
            x = x * 2
            if x.max() > 50:
                return -x
            i = i + 1
        x = x + 1000
        return x


class WhileTuple(nn.Cell):
    def construct(self, x, y, n):
        t = (x, (y, x + y))
        i = zero()
        while i < n:
            a, (b, c) = t
            t = (b, (c, a + 0.5 * b - c))
            i = i + 1
        return t


class WhileInIf(nn.Cell):
    def construct(self, x, n):
        if x.sum() > 0:
            i = zero()
            while i < n:
                if x.max() > 3:
                    x = x - 3
                else:
                    x = x * 1.5
                i = i + 1
            y = x
        else:
            y = x - 1
        return y * 2


class NestBreak(nn.Cell):
    """A return from the inner of two loops, and break and continue in it."""

    def construct(self, x, n, m):
        i = zero()
        while i < n:
            j = zero()
            while j < m:
                j = j + 1
                if j == 2:
                    continue
                if x.sum() > 60:
                    return x * 10, i
                if x.max() > 9:
                    break
                x = x + 1
            x = x * 1.25
            i = i + 1
        return x, i


class WhileScalar(nn.Cell):
    """Bound and counter are Python numbers, from a dynamic shape."""

    def construct(self, x):
        n = x.shape[0]
        i = 0
        y = x.sum()
        while i < n:
            y = y * 0.5 + i
            i = i + 1
        return y, i


class WhileAnd(nn.Cell):
    def construct(self, x, n):
        i = zero()
        while i < n and x.sum() < 30:
            x = x * 1.5 + 1
            i = i + 1
        return x, i


class WhileInvariant(nn.Cell):
    """A weight and a product that every round reads."""

    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor(normal(4, 4) * 0.3), name="w")

    def construct(self, x, n):
        k = ops.matmul(x, self.w)
        i = zero()
        while i < n:
            x = ops.tanh(ops.matmul(x, self.w) + k)
            i = i + 1
        return x + k


class WhileLong(nn.Cell):
    """More rounds than Python's recursion limit."""

    def construct(self, x, n):
        i = zero()
        while i < n:
            x = x + 0.5
            i = i + 1
        return x


class WhileDynamic(nn.Cell):
    def construct(self, x, n):
        i = zero()
        while i < n:
            x = ops.relu(x) + ops.cast(i, ms.float32)
            i = i + 1
        return x


class WhileGrow(nn.Cell):
    """What the loop carries gets longer."""

    def construct(self, x, n):
        i = zero()
        y = x
        while i < n:
            y = ops.concat((y, x * ops.cast(i, ms.float32)), 0)
            i = i + 1
        return y


class Greedy(nn.Cell):
    """Generation: one token after the other, until the end token."""

    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(10, 6)
        self.d = nn.Dense(6, 10)
        self.range = Tensor(np.arange(12), ms.int32)

    def construct(self, token, n):
        out = ops.zeros((12,), ms.int32)
        h = ops.zeros((1, 6), ms.float32)
        i = zero()
        while i < n:
            h = ops.relu(h * 0.5 + self.e(token.reshape(1)))
            token = ops.cast(ops.argmax(self.d(h), -1), ms.int32).reshape(())
            out = ops.select(self.range == i, token.broadcast_to((12,)), out)
            if token == 3:
                break
            i = i + 1
        return out, i


class ForTensor(nn.Cell):
    def construct(self, x):
        y = ops.zeros((4,), ms.float32)
        for row in x:
            if row.sum() > 0:
                y = y + row
            else:
                y = y - 2 * row
        return y


class ForRange(nn.Cell):
    def construct(self, x, n):
        for i in range(3):
            if x.sum() < n:
                x = x + i
            else:
                continue
            x = x * 1.1
        return x


class Scan(nn.Cell):
    def __init__(self):
        super().__init__()
        self.scan = ops.Scan()

    def construct(self, x):
        def step(carry, element):
            carry = carry + element
            return carry, carry * 2

        return self.scan(step, Tensor(0.0, ms.float32), [x[0], x[1], x[2]], 3)


class Elif(nn.Cell):
    def construct(self, x, k):
        if k == 0:
            y = x + 1, x
        elif k == 1:
            y = x * 2, -x
        elif k == 2:
            y = ops.relu(x), x * 0
        else:
            y = ops.abs(x), x + 5
        return y


class EarlyReturns(nn.Cell):
    def construct(self, x, k):
        if k == 0:
            return x
        x = x + 1
        if k == 1:
            return x * 2
        if x.sum() > 0:
            x = ops.exp(x)
        if k == 2:
            return x - 7
        return ops.abs(x)


class ManyReturns(nn.Cell):
    """More early returns than branches may lie inside each other, with a branch between each
    two."""

    def construct(self, x, k):
        for i in range(31):
            if x.sum() > i:
                x = x - 0.25
            else:
                x = x + 0.5
            if k == i:
                return x * 2
        return -x


class IfShapes(nn.Cell):
    """Branches whose results differ in shape."""

    def construct(self, x, k):
        if k > 0:
            y = ops.concat((x, x), 0)
        else:
            y = x
        return y * 2


class Truth(nn.Cell):
    """Numbers and bools as conditions."""

    def construct(self, x, n, b):
        if n:
            x = x + 1
        if b:
            x = x * 2
        while n:
            x = x - 0.5
            n = n - 1
        return x, n


class ZeroD(nn.Cell):
    def construct(self, x, y):
        if x > y:
            return x - y
        return y * 2


class SwitchLayer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layers = nn.CellList(
            [nn.Dense(4, 4), nn.ReLU(), nn.Sigmoid(), nn.Dense(4, 4), nn.LeakyReLU()]
        )

    def construct(self, x, i):
        return self.layers[i](x) + 1


class Closures(nn.Cell):
    def __init__(self):
        super().__init__()
        self.d = nn.Dense(4, 4)

    def construct(self, x, k):
        def add(y):
            return self.d(y) + x

        def multiply(y):
            return y * x

        def twice(f, y):
            return f(f(y))

        half = partial(ops.mul, Tensor(0.5, ms.float32))
        if k > 0:
            result = twice(add, x + 1)
        else:
            result = twice(multiply, x)
        return result + half(x)


class TupleIn(nn.Cell):
    def construct(self, pair, z):
        a, (b, c) = pair
        return a + b * z, (c, (a,))


class TupleEmpty(nn.Cell):
    def construct(self, x):
        return x + 1, (), (x, ())


class PassthroughTwice(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor(normal(3)), name="w")

    def construct(self, x, y):
        z = x * 2
        return x, x, z, z, self.w, self.w, Tensor(np.array([1, 2], np.int32)), 3, y


class ZeroSize(nn.Cell):
    def construct(self, x, y, n):
        i = zero()
        while i < n:
            x = x * 2
            i = i + 1
        return ops.concat((x, y), 0), ops.matmul(x, y.T)


class RankUnknown(nn.Cell):
    def construct(self, x):
        return ops.relu(x) + 1, ops.exp(x)


class StateCounter(nn.Cell):
    def __init__(self):
        super().__init__()
        self.n = Parameter(zero(), name="n")
        self.total = Parameter(Tensor(np.zeros((2, 3), np.float32)), name="total")
        self.w = Parameter(Tensor(normal(3, 3)), name="w")

    def construct(self, x):
        self.n += 1
        y = ops.matmul(x, self.w)
        self.total = self.total + y
        return self.total * ops.cast(self.n, ms.float32), self.n


class StateAssign(nn.Cell):
    """Read, assigned, read again and assigned again; one parameter takes another's value."""

    def __init__(self):
        super().__init__()
        self.a = Parameter(Tensor(normal(4)), name="a")
        self.b = Parameter(Tensor(normal(4) * 2), name="b")
        self.c = Parameter(Tensor(normal(4) * 3), name="c")

    def construct(self, x):
        before = self.a + 0
        ops.assign_add(self.a, x)
        ops.assign_sub(self.b, self.a)
        ops.assign(self.c, self.b)
        ops.assign(self.a, self.b * 0.5)
        return before, self.a + x, self.b, self.c


class StateCache(nn.Cell):
    """Attention over a key-value cache that each call appends to."""

    def __init__(self):
        super().__init__()
        self.k = Parameter(Tensor(np.zeros((1, 8, 4), np.float32)), name="k_cache")
        self.v = Parameter(Tensor(np.zeros((1, 8, 4), np.float32)), name="v_cache")
        self.at = Parameter(zero(), name="position")
        self.q_proj, self.k_proj, self.v_proj = nn.Dense(4, 4), nn.Dense(4, 4), nn.Dense(4, 4)
        self.range = Tensor(np.arange(8), ms.int32)

    def construct(self, x):
        here = ops.cast(self.range == self.at, ms.float32).reshape(1, 8, 1)
        k = self.k * (1 - here) + self.k_proj(x) * here
        v = self.v * (1 - here) + self.v_proj(x) * here
        ops.assign(self.k, k)
        ops.assign(self.v, v)
        mask = ops.cast(self.range > self.at, ms.float32).reshape(1, 1, 8) * -1e9
        y = ops.matmul(ops.softmax(ops.matmul(self.q_proj(x), k.swapaxes(1, 2)) + mask, -1), v)
        ops.assign_add(self.at, Tensor(1, ms.int32))
        return y


class StateScatter(nn.Cell):
    def __init__(self, update):
        super().__init__()
        self.cache = Parameter(Tensor(np.zeros((6, 3), np.float32)), name="cache")
        self.update = update

    def construct(self, x, at):
        self.update(self.cache, at, x)
        return self.cache.sum(0), self.cache


class StateSetItem(nn.Cell):
    def __init__(self):
        super().__init__()
        self.cache = Parameter(Tensor(np.zeros((6, 3), np.float32)), name="cache")

    def construct(self, x, at):
        self.cache[at] = x
        return self.cache + 1


class StateIf(nn.Cell):
    def __init__(self):
        super().__init__()
        self.n = Parameter(Tensor(np.zeros(3, np.float32)), name="n")

    def construct(self, x):
        if x.sum() > 0:
            ops.assign_add(self.n, x)
        return self.n * 2


class StateWhile(nn.Cell):
    def __init__(self):
        super().__init__()
        self.n = Parameter(Tensor(np.zeros(3, np.float32)), name="n")
        self.rounds = Parameter(zero(), name="rounds")

    def construct(self, x, k):
        i = zero()
        while i < k:
            ops.assign_add(self.n, x)
            x = x * 0.5
            if self.n.sum() > 8:
                ops.assign(self.n, self.n * 0)
                break
            i = i + 1
            self.rounds += 1
        return self.n + x, self.rounds


class RanksWhile(nn.Cell):
    """A loop with a collective in it, and in a branch in it."""

    def __init__(self, rank):
        super().__init__()
        weight = np.random.default_rng(rank).standard_normal((4, 4)).astype(np.float32) * 0.3
        self.sum = ops.AllReduce()
        self.d = nn.Dense(4, 4, weight_init=Tensor(weight))

    def construct(self, x, n):
        i = zero()
        total = x.sum()
        while i < n:
            x = ops.tanh(self.sum(self.d(x)))
            if x.sum() > 1:
                x = x - self.sum(x * 0.1)
            total = total + x.sum()
            i = i + 1
        return x, total, i


class RanksReturn(nn.Cell):
    """Loops inside each other with collectives, and ways out of both; state on every rank."""

    def __init__(self, rank):
        super().__init__()
        self.sum = ops.AllReduce()
        self.gather = ops.AllGather()
        self.w = Parameter(Tensor(np.full((4, 4), 0.2 + rank / 10, np.float32)), name="w")
        self.calls = Parameter(zero(), name="calls")

    def construct(self, x, n):
        i = zero()
        while i < n:
            j = zero()
            y = ops.matmul(x, self.w)
            while j < n:
                y = self.sum(y) * 0.75
                if y.max() > 40:
                    return y * 3, self.gather(x), i
                if y.sum() > 25:
                    break
                j = j + 1
                ops.assign_add(self.calls, Tensor(1, ms.int32))
            x = ops.relu(x + self.sum(y))
            i = i + 1
        return x + 1, self.gather(x * 2), self.calls


@dataclass(frozen=True)
class Case:
    """A network, the arguments of its calls, and the arguments to export it with where they are not
    the first's.
    """

    make: Callable[[], nn.Cell]
    calls: list[list[Any]]
    export: list[Tensor] | None = None


X = normal(2, 4)
POSITIVE, NEGATIVE = abs(X), -abs(X)
CASES = {
    "cf_while_nested": Case(
        WhileNested, [[X, i32(3), i32(2)], [X, i32(0), i32(2)], [X, i32(2), i32(0)]]
    ),
    "cf_while_three": Case(WhileThree, [[X, i32(4)], [X, i32(2)], [X, i32(0)]]),
    "cf_loops_in_a_row": Case(LoopsInARow, [[X, i32(4)], [NEGATIVE, i32(2)], [X, i32(0)]]),
    "cf_while_if": Case(WhileIf, [[X, i32(4)], [NEGATIVE, i32(5)]]),
    "cf_while_break": Case(WhileBreak, [[POSITIVE, i32(8)], [NEGATIVE, i32(3)]]),
    "cf_while_continue": Case(WhileContinue, [[X, i32(7)]]),
    "cf_while_return": Case(WhileReturn, [[POSITIVE, i32(20)], [POSITIVE, i32(2)]]),
    "cf_while_tuple": Case(WhileTuple, [[X, X[::-1].copy(), i32(5)], [X, X * 2, i32(0)]]),
    "cf_while_in_if": Case(WhileInIf, [[POSITIVE, i32(5)], [NEGATIVE, i32(5)]]),
    "cf_nest_break": Case(
        NestBreak,
        [[POSITIVE, i32(5), i32(4)], [NEGATIVE, i32(2), i32(3)], [POSITIVE * 4, i32(50), i32(5)]],
    ),
    "cf_while_scalar": Case(
        WhileScalar, [[normal(5, 3)]], [Tensor(shape=[None, 3], dtype=ms.float32)]
    ),
    "cf_while_and": Case(WhileAnd, [[X, i32(9)], [X, i32(2)]]),
    "cf_while_invariant": Case(WhileInvariant, [[X, i32(3)]]),
    "cf_while_long": Case(WhileLong, [[normal(2), i32(20000)]]),
    "cf_while_dynamic": Case(
        WhileDynamic,
        [[normal(2, 5), i32(3)]],
        [Tensor(shape=[None, None], dtype=ms.float32), Tensor(i32(1))],
    ),
    "cf_while_grow": Case(
        WhileGrow,
        [[normal(1, 3), i32(3)], [normal(2, 3), i32(0)]],
        [Tensor(shape=[None, 3], dtype=ms.float32), Tensor(i32(1))],
    ),
    "cf_greedy": Case(Greedy, [[i32(1), i32(12)], [i32(3), i32(12)]]),
    "cf_for_tensor": Case(ForTensor, [[normal(3, 4)]]),
    "cf_for_range": Case(ForRange, [[X, np.float32(3)], [X, np.float32(-100)]]),
    "cf_scan": Case(Scan, [[normal(3)]]),
    "cf_elif": Case(Elif, [[X, i32(k)] for k in (0, 1, 2, 7)]),
    "cf_early_returns": Case(EarlyReturns, [[X, i32(k)] for k in (0, 1, 2, 7)]),
    "cf_many_returns": Case(ManyReturns, [[X, i32(k)] for k in (0, 7, 30, 40)]),
    "cf_if_shapes": Case(IfShapes, [[normal(2, 3), i32(1)], [normal(2, 3), i32(0)]]),
    "cf_truth": Case(Truth, [[X, i32(3), np.array(True)], [X, i32(0), np.array(False)]]),
    "cf_zero_d": Case(ZeroD, [[np.float32(2), np.float32(1)], [np.float32(1), np.float32(2)]]),
    "cf_switch_layer": Case(SwitchLayer, [[X, i32(k)] for k in range(5)]),
    "cf_closures": Case(Closures, [[X, i32(1)], [X, i32(0)]]),
    "tuple_in": Case(TupleIn, [[(normal(2, 3), (normal(2, 3) * 2, normal(3))), normal(2, 3)]]),
    "tuple_empty": Case(TupleEmpty, [[normal(2)]]),
    "passthrough_twice": Case(PassthroughTwice, [[normal(2), i32([5])]]),
    "zero_size": Case(ZeroSize, [[np.zeros((0, 3), np.float32), normal(2, 3), i32(2)]]),
    "rank_unknown": Case(
        RankUnknown, [[normal(2, 3)], [normal(2, 1, 4)]], [Tensor(shape=None, dtype=ms.float32)]
    ),
    "state_counter": Case(StateCounter, [[normal(2, 3)], [normal(2, 3) * 2]]),
    "state_assign": Case(StateAssign, [[normal(4)], [normal(4) * 3], [normal(4) - 1]]),
    "state_cache": Case(
        StateCache, [[normal(1, 1, 4)], [normal(1, 1, 4) * 2], [normal(1, 1, 4) - 1]]
    ),
    "state_scatter": Case(
        lambda: StateScatter(ops.scatter_update),
        [[normal(2, 3), i32([1, 4])], [normal(2, 3) * 2, i32([4, 5])]],
    ),
    "state_scatter_nd": Case(
        lambda: StateScatter(ops.scatter_nd_update),
        [[normal(2, 3), i32([[1], [4]])], [normal(2, 3) * 2, i32([[4], [5]])]],
    ),
    "state_scatter_add": Case(
        lambda: StateScatter(ops.scatter_add),
        [[normal(2, 3), i32([1, 4])], [normal(2, 3) * 2, i32([4, 5])]],
    ),
    "state_set_item": Case(StateSetItem, [[normal(3), i32(1)], [normal(3) * 2, i32(4)]]),
    "state_if": Case(StateIf, [[abs(normal(3))], [-abs(normal(3))], [abs(normal(3))]]),
    "state_while": Case(
        StateWhile,
        [
            [abs(normal(3)), i32(2)],
            [normal(3), i32(0)],
            [abs(normal(3)) * 3, i32(9)],
            [abs(normal(3)), i32(3)],
        ],
    ),
}


def tensors(value: Any) -> Any:
    """An argument as MindSpore takes it; a tuple stays an input of the graph."""
    return (
        mutable(tuple(tensors(item) for item in value))
        if isinstance(value, tuple)
        else Tensor(value)
    )


def flat(value: Any) -> list[Array]:
    """The arrays of an argument or result, in order."""
    if isinstance(value, (tuple, list)):
        return [array for item in value for array in flat(item)]
    return [np.asarray(value.asnumpy() if isinstance(value, Tensor) else value)]


def save(path: Path, given: Any, result: Any) -> None:
    """Inputs and outputs of one call."""
    np.savez(
        path,
        **{f"in_{i}": array for i, array in enumerate(flat(given))},
        **{f"out_{i}": array for i, array in enumerate(flat(result))},
    )


def record(folder: Path, name: str, case: Case) -> None:
    """Export one network and write the results of its calls."""
    ms.set_seed(1)
    net = case.make()
    net.set_train(False)
    folder.mkdir(exist_ok=True)
    ms.export(
        net,
        *(case.export or map(tensors, case.calls[0])),
        file_name=str(folder / name),
        file_format="MINDIR",
    )
    if case.export:
        net.set_inputs(*case.export)
    for number, call in enumerate(case.calls, 1):
        save(
            folder / (name if number == 1 else f"{name}_{number}"),
            tuple(call),
            net(*map(tensors, call)),
        )
    print(name, flush=True)


def record_ranks(data: Path) -> None:
    """Export and run this process's shards of the networks with collectives."""
    from mindspore.communication import get_rank, init

    init()
    for name, make, x, n in (
        ("dist_while_2", RanksWhile, X, 5),
        ("dist_while_return_2", RanksReturn, abs(X) / 4, 9),
        ("dist_while_break_2", RanksReturn, abs(X) / 4, 2),
    ):
        net = make(get_rank())
        net.set_train(False)
        (data / name).mkdir(exist_ok=True)
        path = str(data / name / f"{name}_rank{get_rank()}")
        ms.export(net, Tensor(x), Tensor(i32(n)), file_name=path, file_format="MINDIR")
        save(Path(path), (x, i32(n)), net(Tensor(x), Tensor(i32(n))))


def main() -> None:
    """See the top of this file."""
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    data, *names = sys.argv[1:]
    if names == ["--ranks"]:
        record_ranks(Path(data))
        return
    for name in names or CASES:
        record(Path(data) / name, name, CASES[name])


if __name__ == "__main__":
    main()
