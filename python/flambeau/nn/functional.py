"""Functions on tensors that layers are made of: `import flambeau.nn.functional as F`."""
from .._C import Tensor  # noqa: F401
from .._names import handle_torch_function, has_torch_function  # noqa: F401
from ._functional import activation as _activation
from ._functional import attention as _attention
from ._functional import loss as _loss
from ._functional import norm as _norm
from ._functional import pooling as _pooling
from ._functional import vision as _vision

_HELPERS = {"overridable", "Enum"}


def _take(part):
    for name, value in vars(part).items():
        if name.startswith("__") or name in _HELPERS or not callable(value):
            continue
        if getattr(value, "__module__", None) == part.__name__:
            value.__module__ = __name__
        globals()[name] = value


for _part in (_activation, _norm, _pooling, _loss, _vision, _attention):
    _take(_part)
del _part


def has_torch_function_unary(x):
    """Whether `x` overrides functions."""
    return has_torch_function((x,))


def has_torch_function_variadic(*args):
    """Whether one of the arguments overrides functions."""
    return has_torch_function(args)


def assert_int_or_pair(arg, arg_name, message):
    """Check for an int or two of them."""
    if not (isinstance(arg, int) or len(arg) == 2):
        raise AssertionError(message.format(arg_name))


def boolean_dispatch(arg_name, arg_index, default, if_true, if_false, module_name, func_name):
    """One function that is `if_true` or `if_false` by the value of a boolean argument."""

    def fn(*args, **kwargs):
        given = args[arg_index] if arg_index < len(args) else default
        chosen = if_true if kwargs.get(arg_name, given) else if_false
        return chosen(*args, **kwargs)

    fn.__doc__ = if_true.__doc__ or if_false.__doc__
    fn.__module__ = module_name or fn.__module__
    fn.__name__ = func_name or fn.__name__
    return fn


class _BroadcastingList:
    def __getitem__(self, types):
        return None


BroadcastingList1 = _BroadcastingList()
BroadcastingList2 = _BroadcastingList()
BroadcastingList3 = _BroadcastingList()
