"""Moving modules: what the arguments of `Module.to` mean, and how a parameter is converted."""
from ... import _C, __future__
from ..._C import Tensor
from ...utils import swap_tensors
from ..parameter import Parameter


def _name_of(value):
    kind = type(value)
    return f"torch.{kind.__name__}" if kind in (_C.dtype, _C.device, _C.layout, _C.memory_format) else kind.__name__


def parse_to(*args, **kwargs):
    """The (device, dtype, non_blocking, memory_format) meant by the arguments of `to`."""

    def take(name, kinds):
        if args and isinstance(args[0], kinds):
            return args.pop(0)
        return named.pop(name) if name in named and isinstance(named[name], kinds) else None

    given, named, args = args, dict(kwargs), list(args)
    nothing = type(None)
    like = take("tensor", Tensor)
    device = dtype = None
    if like is not None:
        device, dtype = like.device, like.dtype
    elif args and isinstance(args[0], _C.dtype):
        dtype = args.pop(0)
    else:
        number = (str, int, _C.device, nothing)
        device = None if args and isinstance(args[0], bool) else take("device", number)
        dtype = take("dtype", (_C.dtype, nothing))
    non_blocking, copy = take("non_blocking", bool), take("copy", bool)
    memory_format = named.pop("memory_format", None)
    if args or named:
        pairs = [f"{name}={_name_of(value)}" for name, value in kwargs.items()]
        got = ", ".join([*map(_name_of, given), *pairs]) + (", " if pairs and not given else "")
        raise TypeError(
            f"to() received an invalid combination of arguments - got ({got}), but expected one of:\n"
            " * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy = False, *, "
            "torch.memory_format memory_format = None)\n * (torch.dtype dtype, bool non_blocking = False, bool copy = False, "
            "*, torch.memory_format memory_format = None)\n * (Tensor tensor, bool non_blocking = False, bool copy = False, *, "
            "torch.memory_format memory_format = None)\n"
        )
    if copy:
        raise RuntimeError(".to() does not accept copy argument")
    return (None if device is None else _C.device(device)), dtype, bool(non_blocking), memory_format


def convert_parameter(module, name, param, fn):
    """Convert one parameter and its gradient: in place, by a new one, or exchanged with a new one."""
    with _C.no_grad():
        applied = fn(param)
    grad = param.grad
    if __future__.get_swap_module_params_on_conversion():
        try:
            if grad is not None:
                with _C.no_grad():
                    new_grad = fn(grad).requires_grad_(grad.requires_grad)
                param.grad = None
                swap_tensors(grad, new_grad)
            swap_tensors(param, Parameter(applied, param.requires_grad))
            param.grad = grad
        except Exception as e:
            raise RuntimeError(f"_apply(): Couldn't swap {module._get_name()}.{name}") from e
        return
    replaced = __future__.get_overwrite_module_params_on_conversion()
    if not replaced:
        try:
            param.data = applied
        except RuntimeError:  # another kind of tensor
            replaced = True
    if replaced:
        param = module._parameters[name] = Parameter(applied, param.requires_grad)
    if grad is not None:
        with _C.no_grad():
            applied = fn(grad)
        if replaced:
            grad = applied.requires_grad_(grad.requires_grad)
        else:
            grad.data = applied
        param.grad = None
        param.grad = grad
