"""Numbers that a compiler may trace: here they are always plain ones."""

__all__ = [
    "SymInt", "SymFloat", "SymBool", "sym_float", "sym_int", "sym_not", "sym_max", "sym_min", "sym_ite", "sym_sum",
    "sym_sqrt", "sym_fresh_size", "sym_constrain_range", "sym_constrain_range_for_size",
]  # fmt: skip


class _Symbolic:
    """Nothing is an instance of these classes; programs ask whether something is."""

    def __new__(cls, *args, **kwargs):
        raise TypeError(f"{cls.__name__}: sizes are never symbolic here")


class SymInt(_Symbolic):
    """An integer that is not known yet."""

    __module__ = "flambeau"


class SymFloat(_Symbolic):
    """A float that is not known yet."""

    __module__ = "flambeau"


class SymBool(_Symbolic):
    """A truth value that is not known yet."""

    __module__ = "flambeau"


def sym_not(a):
    return not a


def sym_float(a):
    return a.__sym_float__() if hasattr(a, "__sym_float__") else float(a)


def sym_int(a):
    """Towards zero."""
    return int(a)


def _extreme(pick, a, b):
    chosen = pick(a, b)
    return float(chosen) if isinstance(a, float) or isinstance(b, float) else chosen


def sym_max(a, b):
    """The larger one; a float if one of them is."""
    return _extreme(max, a, b)


def sym_min(a, b):
    """The smaller one; a float if one of them is."""
    return _extreme(min, a, b)


def sym_ite(b, t, f):
    """`t` if `b`, else `f`; both of one type."""
    if not isinstance(b, bool) or type(t) is not type(f):
        raise AssertionError(f"a bool and two values of one type are expected, got {type(b)}, {type(t)}, {type(f)}")
    return t if b else f


def sym_sum(args):
    return sum(args)


def sym_sqrt(a):
    return a**0.5


def sym_fresh_size(expr):
    return expr


def sym_constrain_range(size, *, min=None, max=None):
    """Checks a bound that a compiler would take on trust."""
    if (min is not None and size < min) or (max is not None and size > max):
        raise RuntimeError(f"Invalid value range for {size} between [{min}, {max}].")


sym_constrain_range_for_size = sym_constrain_range
