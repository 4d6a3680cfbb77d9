"""Questions about sizes that may be symbols: here every size is a number, so each has its answer."""
import operator

__all__ = ["guard_bool", "guard_float", "guard_int", "guard_or_false", "guard_or_true", "guard_scalar",
           "guard_size_oblivious", "has_free_symbols", "has_static_value", "is_concrete_bool", "is_concrete_float",
           "is_concrete_int", "is_nested_int",
           "is_symbolic", "free_symbols", "free_unbacked_symbols", "statically_known_true", "statically_known_false",
           "sym_and", "sym_eq", "sym_or", "optimization_hint", "GuardOnDataDependentSymNode", "ShapeEnv"]  # fmt: skip


class GuardOnDataDependentSymNode(RuntimeError):
    """A condition on a size that nobody knows. Never raised here."""


class ShapeEnv:
    """What is known about symbols: nothing, as there are none."""

    def __init__(self, **settings):
        self.settings = settings


def guard_bool(a):
    """The value."""
    return bool(a)


guard_or_false = guard_or_true = guard_size_oblivious = statically_known_true = guard_bool


def statically_known_false(x):
    """Is it false?"""
    return not x


def guard_int(a):
    """The value."""
    return int(a)


def guard_float(a):
    """The value."""
    return float(a)


def guard_scalar(a):
    """The value."""
    return a


def optimization_hint(a, fallback=None):
    """The value."""
    return int(a)


def is_concrete_int(a):
    """Is it a number rather than a symbol? Always."""
    return True


is_concrete_bool = is_concrete_float = has_static_value = is_concrete_int


def is_symbolic(val):
    """Is it a symbol? Never."""
    return False


has_free_symbols = is_symbolic


def is_nested_int(val):
    """Is it the size of a ragged dimension?"""
    return hasattr(val, "nested_int")


def free_symbols(val):
    """The symbols in a value: none."""
    return set()


free_unbacked_symbols = free_symbols


def sym_eq(x, y):
    """Whether two sizes, or lists of sizes, are equal."""
    return x == y


def sym_and(x, *others):
    """Whether all are true."""
    for other in others:
        x = operator.and_(x, other)
    return x


def sym_or(x, *others):
    """Whether any is true."""
    for other in others:
        x = operator.or_(x, other)
    return x
