"""A transformer block that is whole or one rank's shard, as its group says.

The group has one rank: the block is whole, and its collectives give back what they get. It has
several: each has some of the heads and of the hidden units, and two sums join them.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from rankmesh.torch import Group, all_reduce

WIDTH, HEADS, HIDDEN = 64, 4, 256

# The axis along which a weight is cut. Torch stores the columns of a Linear as rows.
COLUMNS = {
    f"{name}.{kind}": 0 for name in ("query", "key", "value", "up") for kind in ("weight", "bias")
}
ROWS = {"out.weight": 1, "down.weight": 1}


class Block(torch.nn.Module):
    """Attention and MLP of one rank: columns first, then rows, then a sum over the ranks."""

    def __init__(self, group: Group) -> None:
        super().__init__()
        self.group = group
        self.heads = HEADS // group.size
        width, hidden = WIDTH // group.size, HIDDEN // group.size
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.query, self.key, self.value = (torch.nn.Linear(WIDTH, width) for _ in range(3))
        self.out = torch.nn.Linear(width, WIDTH, bias=False)
        self.up = torch.nn.Linear(WIDTH, hidden)
        self.down = torch.nn.Linear(hidden, WIDTH, bias=False)
        # Biases of rows are added after the sum: before it, each rank would add them.
        self.out_bias = torch.nn.Parameter(torch.randn(WIDTH))
        self.down_bias = torch.nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, length, WIDTH] to the same."""
        x = (
            x
            + all_reduce(self.out(self.attention(self.norm1(x))), group=self.group)
            + self.out_bias
        )
        part = self.down(functional.gelu(self.up(self.norm2(x))))
        return x + all_reduce(part, group=self.group) + self.down_bias

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        """Causal attention with the heads of this rank."""
        batch, length, _ = x.shape
        query, key, value = (
            linear(x).view(batch, length, self.heads, -1).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return mixed.transpose(1, 2).reshape(batch, length, -1)


def shard(whole: Block, group: Group) -> Block:
    """The part of a whole block that belongs to the group's position."""
    axes = {**COLUMNS, **ROWS}
    parts = {
        name: value.chunk(group.size, axes[name])[group.position] if name in axes else value
        for name, value in whole.state_dict().items()
    }
    block = Block(group)
    block.load_state_dict(parts)
    return block.eval()
