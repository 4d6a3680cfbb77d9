"""Arguments that may be one number or one per dim."""


def _ntuple(n, name="parse"):
    """A function that makes `n` equal values of one; what has several already becomes a tuple."""

    def spread(x):
        several = hasattr(x, "__iter__") and not isinstance(x, (str, bytes))
        return tuple(x) if several else (x,) * n

    spread.__name__ = name
    return spread


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t, n):
    """(1, 2) with n = 2 becomes (2, 2, 1, 1): the order of `pad` from that of dims."""
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size, defaults):
    """`out_size` with each None replaced by the matching last entry of `defaults`."""
    if isinstance(out_size, int):
        return out_size
    n = len(out_size)
    if n >= len(defaults):
        raise ValueError(f"Input dimension should be at least {n + 1}")
    return [own if wanted is None else wanted for wanted, own in zip(out_size, defaults[-n:])]
