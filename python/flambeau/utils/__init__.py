"""Tools that are not part of another package. Sub-modules are imported when first used."""
import importlib as _importlib

_LAZY = frozenset(
    "_foreach_utils _pytree backcompat benchmark checkpoint collect_env cpp_extension data dlpack flop_counter hooks "
    "mobile_optimizer model_zoo module_tracker tensorboard weak".split()
)


def __getattr__(name):
    if name in _LAZY:
        try:
            return _importlib.import_module("." + name, __name__)
        except ModuleNotFoundError as e:
            if e.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def set_module(obj, mod):
    """Says that something comes from another module."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def swap_tensors(t1, t2):
    """Exchanges two leaves: contents, gradients, attributes and classes. Each keeps its identity."""
    import copyreg
    import weakref

    for name, tensor in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    slots = [set(copyreg._slotnames(type(tensor))) for tensor in (t1, t2)]
    if slots[0] != slots[1]:
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    for name, tensor in (("t1", t1), ("t2", t2)):
        if not tensor.is_leaf:
            raise NotImplementedError(f"Cannot swap {name}: it is the result of an operator that autograd knows")
    states = [(t.data, t.requires_grad, t.grad, type(t), dict(t.__dict__), _slots_of(t, slots[0])) for t in (t1, t2)]
    for tensor, (data, requires_grad, grad, kind, attributes, values) in ((t1, states[1]), (t2, states[0])):
        tensor.grad = None
        tensor.requires_grad_(False)
        tensor.data = data
        if requires_grad:
            tensor.requires_grad_(True)
        tensor.grad = grad
        tensor.__class__ = kind
        tensor.__dict__.clear()
        tensor.__dict__.update(attributes)
        for name, value in values.items():
            setattr(tensor, name, value)


def _slots_of(tensor, names):
    return {name: getattr(tensor, name) for name in names if hasattr(tensor, name)}
