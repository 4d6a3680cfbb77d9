"""Tools that are not part of another package. Sub-modules are imported when first used."""
import importlib as _importlib

_LAZY = frozenset(
    "_foreach_utils _pytree backcompat benchmark checkpoint collect_env cpp_extension data deterministic dlpack flop_counter hooks "
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
    """Exchanges two tensors: contents, history, gradients, attributes and classes. Each keeps its identity."""
    import copyreg
    import weakref

    from .. import _C

    for name, tensor in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    slots = [set(copyreg._slotnames(type(tensor))) for tensor in (t1, t2)]
    if slots[0] != slots[1]:
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    kept = [_slots_of(tensor, slots[0]) for tensor in (t1, t2)]
    _C._swap_tensors(t1, t2)
    t1.__class__, t2.__class__ = type(t2), type(t1)
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for tensor, values in ((t1, kept[1]), (t2, kept[0])):
        for name, value in values.items():
            setattr(tensor, name, value)


def _slots_of(tensor, names):
    return {name: getattr(tensor, name) for name in names if hasattr(tensor, name)}
