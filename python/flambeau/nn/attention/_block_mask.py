"""Masks of attention as lists of the blocks that count."""
from ... import _C

_TENSORS = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks", "q_indices",
            "full_q_num_blocks", "full_q_indices")  # fmt: skip
_ORDERS = ("dq_write_order", "dq_write_order_full", "dq_kv_order", "dq_kv_order_spt")


def noop_mask(batch, head, token_q, token_kv):
    """Every key counts for every query."""
    return batch.new_ones((), dtype=_C.bool)


def _sliced_mask_mod_error(batch, head, token_q, token_kv):
    raise RuntimeError(
        "Cannot use mask_mod from a sliced BlockMask. When you slice a BlockMask using [], the mask_mod attribute is reset. "
        "You must set it from the original BlockMask's mask_mod."
    )


def pair(size):
    """The height and width of a block."""
    return (size, size) if isinstance(size, int) else tuple(size)


def _blocks_over(length, size):
    return -(-length // size)


def partial_and_full(mask, sizes, separate):
    """Which blocks of a mask hold something, and which of them hold everywhere (None unless they are kept apart)."""
    rows, columns = (_blocks_over(length, size) for length, size in zip(mask.shape[-2:], sizes))
    padding = (0, columns * sizes[1] - mask.shape[-1], 0, rows * sizes[0] - mask.shape[-2])
    counts = _C.constant_pad_nd(mask.to(_C.int64), padding, 0)
    counts = counts.reshape(*mask.shape[:-2], rows, sizes[0], columns, sizes[1]).sum((-3, -1))
    some = counts > 0
    if not separate:
        return some, None
    full = counts == sizes[0] * sizes[1]
    return some & ~full, full


def block_counts(dense):
    """The number of blocks in each row and the columns, those of blocks first."""
    dense = dense.to(_C.int32)
    where = dense.argsort(dim=-1, descending=True, stable=True)
    return dense.sum(-1).to(_C.int32).contiguous(), where.to(_C.int32).contiguous()


def _dense(num, where):
    """The inverse of block_counts."""
    columns = where.shape[-1]
    counts = _C.arange(columns, device=num.device) < num.unsqueeze(-1)
    return _C.zeros_like(where).scatter(-1, where.to(_C.int64), counts.to(_C.int32))


class BlockMask:
    """For each block of queries the blocks of keys that count: partly (`mask_mod` decides), or in full."""

    def __init__(self, seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, q_num_blocks, q_indices,
                 full_q_num_blocks, full_q_indices, BLOCK_SIZE=(128, 128), mask_mod=noop_mask, *, dq_write_order=None,
                 dq_write_order_full=None, dq_kv_order=None, dq_kv_order_spt=None):  # fmt: skip
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        for name, a, b in (("full_kv", full_kv_num_blocks, full_kv_indices), ("q", q_num_blocks, q_indices),
                           ("full_q", full_q_num_blocks, full_q_indices)):  # fmt: skip
            if (a is None) != (b is None):
                raise AssertionError(f"{name}_num_blocks and {name}_indices must be both provided or omitted")
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.dq_write_order, self.dq_write_order_full = dq_write_order, dq_write_order_full
        self.dq_kv_order, self.dq_kv_order_spt = dq_kv_order, dq_kv_order_spt

    @classmethod
    def from_kv_blocks(cls, kv_num_blocks, kv_indices, full_kv_num_blocks=None, full_kv_indices=None, BLOCK_SIZE=128,
                       mask_mod=None, seq_lengths=None, compute_q_blocks=True, *, dq_write_order=None,
                       dq_write_order_full=None, dq_kv_order=None):  # fmt: skip
        """The mask with these blocks; which queries count for each key follows."""
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        sizes = pair(BLOCK_SIZE)
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * sizes[0], kv_indices.shape[-1] * sizes[1])
        turned = [None] * 4
        if compute_q_blocks:
            turned[:2] = block_counts(_dense(kv_num_blocks, kv_indices).transpose(-2, -1))
            if full_kv_num_blocks is not None:
                turned[2:] = block_counts(_dense(full_kv_num_blocks, full_kv_indices).transpose(-2, -1))
        return cls(seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, *turned, sizes,
                   noop_mask if mask_mod is None else mask_mod, dq_write_order=dq_write_order,
                   dq_write_order_full=dq_write_order_full, dq_kv_order=dq_kv_order)  # fmt: skip

    def as_tuple(self, flatten=True):
        """Lengths, lists of blocks, orders, sizes of blocks and `mask_mod`."""
        lengths = self.seq_lengths if flatten else (self.seq_lengths,)
        sizes = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        return (*lengths, *(getattr(self, name) for name in (*_TENSORS, *_ORDERS)), *sizes, self.mask_mod)

    @property
    def shape(self):
        """Batches, heads, queries and keys."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self):
        """The number of scores that there would be without a mask."""
        total = 1
        for size in self.shape:
            total *= size
        return total

    def to_dense(self):
        """Which blocks hold something, as a tensor of ones and zeros."""
        dense = _dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None:
            dense = dense | _dense(self.full_kv_num_blocks, self.full_kv_indices)
        return dense

    def sparsity(self):
        """The percentage of scores that need not be computed."""
        blocks = int(self.kv_num_blocks.sum())
        if self.full_kv_num_blocks is not None:
            blocks += int(self.full_kv_num_blocks.sum())
        return 100 * (1 - blocks * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def __getitem__(self, index):
        index = index if isinstance(index, tuple) else (index,)
        # Whole numbers keep their dimension.
        index = tuple(slice(i + n, i + n + 1) if isinstance(i, int) and i < 0 else slice(i, i + 1) if isinstance(i, int) else i
                      for i, n in zip(index, self.kv_num_blocks.shape))  # fmt: skip
        part = lambda tensor: None if tensor is None else tensor[index]  # noqa: E731
        return type(self).from_kv_blocks(
            self.kv_num_blocks[index], self.kv_indices[index], part(self.full_kv_num_blocks), part(self.full_kv_indices),
            self.BLOCK_SIZE, _sliced_mask_mod_error, self.seq_lengths, self.q_indices is not None,
        )  # fmt: skip

    def _adjust(self, new_q_len, new_kv_len):
        """The upper left part, for shorter sequences."""
        rows, columns = (_blocks_over(n, size) for n, size in zip((new_q_len, new_kv_len), self.BLOCK_SIZE))

        def cut(num, where):
            return (None, None) if num is None else block_counts(_dense(num, where)[..., :rows, :columns])

        return type(self).from_kv_blocks(
            *cut(self.kv_num_blocks, self.kv_indices), *cut(self.full_kv_num_blocks, self.full_kv_indices), self.BLOCK_SIZE,
            self.mask_mod, (new_q_len, new_kv_len),
        )  # fmt: skip

    def to(self, device):
        """The mask on a device."""
        moved = [None if t is None else t.to(device) for t in (getattr(self, name) for name in _TENSORS)]
        orders = {name: getattr(self, name) for name in _ORDERS}
        orders = {name: o.to(device) if isinstance(o, _C.Tensor) else o for name, o in orders.items()}
        return type(self)(self.seq_lengths, *moved, self.BLOCK_SIZE, self.mask_mod, **orders)

    def to_string(self, grid_size=(20, 20), limit=4):
        """A picture of each batch and head: full squares, shaded ones where only some blocks hold something."""
        dense = self.to_dense().to(_C.float32)
        rows, columns = dense.shape[-2:]
        limits = (rows, columns) if grid_size == -1 else pair(grid_size)
        steps = [max(1, _blocks_over(n, most)) for n, most in zip((rows, columns), limits)]
        heads = dense.reshape(-1, rows, columns)
        lines = []
        for number, (place, picture) in enumerate(zip(_places(dense.shape[:-2]), heads)):
            if number == limit:
                lines += ["...", "To print out more, set BlockMask.to_string(limit=N)",
                          "You can also index (BlockMask[batch, head]) to choose a specific batch or head"]  # fmt: skip
                break
            lines.append(str(place))
            for top in range(0, rows, steps[0]):
                cells = [picture[top : top + steps[0], left : left + steps[1]] for left in range(0, columns, steps[1])]
                lines.append("".join(_square(cell) for cell in cells))
            lines.append("")
        return "\n".join(lines)

    def __str__(self):
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string().strip()}\n)"

    def __repr__(self):
        shapes = {n: None if getattr(self, n) is None else getattr(self, n).shape for n in _TENSORS}
        lines = [f"    {name}={shape},\n" for name, shape in shapes.items()]
        name = getattr(self.mask_mod, "__name__", self.mask_mod)
        return (
            f"BlockMask(\n{''.join(lines)}    BLOCK_SIZE={self.BLOCK_SIZE},\n    shape={self.shape},\n"
            f"    sparsity={self.sparsity():.2f}%,\n    mask_mod={name}\n)"
        )


def _square(cell):
    mean = float(cell.mean())
    return "██" if mean == 1 else "  " if mean == 0 else "░░"


def _places(shape):
    places = [()]
    for size in shape:
        places = [(*place, i) for place in places for i in range(size)]
    return places
