"""Parameters and buffers that are computed from others, by modules."""
import copy
import copyreg
from collections.abc import Sequence
from contextlib import contextmanager, suppress

from ... import _C
from ..modules.container import ModuleDict, ModuleList
from ..parameter import Parameter

__all__ = [
    "cached", "ParametrizationList", "register_parametrization", "is_parametrized", "remove_parametrizations",
    "type_before_parametrizations", "transfer_parametrizations_and_params",
]

# How many `cached` contexts are open, and the values computed within, by module and name.
_cache_enabled = 0
_cache: dict = {}


@contextmanager
def cached():
    """Within this context, each parametrized tensor is computed once."""
    global _cache, _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache = {}


def _adopt(module, name, tensor):
    """Register a tensor as what it is."""
    register = module.register_parameter if isinstance(tensor, Parameter) else module.register_buffer
    register(name, tensor)


def _set(dest, src):
    """Make `dest` hold `src`, without losing what refers to `dest`."""
    if dest is not src:
        with _C.no_grad():
            dest.set_(src)


def _require(condition, message):
    if not condition:
        raise ValueError(message)


def _is_tensor(value):
    return isinstance(value, _C.Tensor)


def _kind(value):
    return type(value).__name__


def _unlike(before, after, kinds):
    """The first of the attributes that two tensors differ in, with both values, or None."""
    for kind in kinds:
        old, new = getattr(before, kind), getattr(after, kind)
        if old != new:
            return kind, old, new
    return None


_SEVERAL = "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...)."


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied in order, and what they are computed from: `original`, or
    `original0`, `original1`, ... if the first one's `right_inverse` returns several tensors."""

    def __init__(self, modules, original, unsafe=False):
        _require(len(modules) > 0, "ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        dtype, shape = original.dtype, original.shape  # the tensor itself is about to change
        source = self._source(original)
        self.is_tensor = _is_tensor(source)
        if self.is_tensor:
            self.ntensors = 1
            self._adopt_one(original, source)
        else:
            _require(isinstance(source, Sequence), f"{_SEVERAL} Got {_kind(source)}")
            self.ntensors = len(source)
            self._adopt_several(original, source)
        if not self.unsafe:
            self._check_result(dtype, shape)

    def _source(self, original):
        """What the parametrizations give `original` from, as far as they know."""
        source = original
        with _C.no_grad():
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    with suppress(NotImplementedError):
                        source = module.right_inverse(source)
        return source

    def _adopt_one(self, original, source):
        """`original` itself is kept, with a new value: optimisers know it."""
        unlike = _unlike(original, source, ("dtype", "device"))
        if unlike is not None:
            kind, old, new = unlike
            raise ValueError(
                f"When `right_inverse` outputs one tensor, it may not change the {kind}.\n"
                f"original.{kind}: {old}\nright_inverse(original).{kind}: {new}"
            )
        _set(original, source)
        _adopt(self, "original", original)

    def _adopt_several(self, original, sources):
        """New tensors take the place of `original`, of its kind."""
        learned = original.requires_grad
        for i, tensor in enumerate(sources):
            _require(_is_tensor(tensor), f"{_SEVERAL} Got element {i} of the sequence with type {_kind(tensor)}.")
            if isinstance(original, Parameter):
                tensor = Parameter(tensor, learned)
            _adopt(self, f"original{i}", tensor.requires_grad_(learned))

    def _check_result(self, dtype, shape):
        """The computed tensor is one like the original was."""
        value = self()
        _require(_is_tensor(value), f"A parametrization must return a tensor. Got {_kind(value)}.")
        for kind, old, new in (("dtype", dtype, value.dtype), ("shape", shape, value.shape)):
            _require(
                old == new,
                f"Registering a parametrization may not change the {kind} of the tensor, unless `unsafe` flag is "
                f"enabled.\nunparametrized {kind}: {old}\nparametrized {kind}: {new}",
            )

    def _originals(self):
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value):
        """Assign: change the originals so that the tensor becomes `value`."""
        with _C.no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {_kind(module)} does not implement right_inverse.")
                value = module.right_inverse(value)
            (self._assign_one if self.is_tensor else self._assign_several)(value)

    def _assign_one(self, value):
        _require(_is_tensor(value), f"`right_inverse` should return a tensor. Got {_kind(value)}")
        _require(
            value.dtype == self.original.dtype,
            f"The tensor returned by `right_inverse` has dtype {value.dtype} while `original` has dtype "
            f"{self.original.dtype}",
        )
        _set(self.original, value)

    def _assign_several(self, values):
        _require(
            isinstance(values, Sequence), f"'right_inverse' must return a sequence of tensors. Got {_kind(values)}."
        )
        _require(
            len(values) == self.ntensors,
            f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of length "
            f"{len(values)}.",
        )
        for i, (original, tensor) in enumerate(zip(self._originals(), values)):
            _require(
                _is_tensor(tensor),
                f"`right_inverse` must return a sequence of tensors. Got element {i} of type {_kind(tensor)}",
            )
            _require(
                tensor.dtype == original.dtype,
                f"Tensor {i} returned by `right_inverse` has dtype {tensor.dtype} while `original{i}` has dtype "
                f"{original.dtype}",
            )
            _set(original, tensor)

    def forward(self):
        first, *others = self
        value = first(self.original) if self.is_tensor else first(*self._originals())
        for module in others:
            value = module(value)
        return value


def _inject_new_class(module):
    """Give the module a class of its own, on which properties can be set."""
    cls = type(module)

    def deepcopy(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        kind = type(self)
        twin = memo[id(self)] = kind.__new__(kind)
        vars(twin).update(copy.deepcopy(vars(self), memo))
        for slot in copyreg._slotnames(kind):
            if hasattr(self, slot):
                setattr(twin, slot, copy.deepcopy(getattr(self, slot), memo))
        return twin

    def getstate(self):
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). See:\nhttps://pytorch.org/tutorials"
            "/beginner/saving_loading_models.html#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
        )

    body = {"__getstate__": getstate}
    if not hasattr(cls, "__deepcopy__"):
        body["__deepcopy__"] = deepcopy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), body)


def _inject_property(module, name):
    def get(self):
        compute = self.parametrizations[name]
        if not _cache_enabled:
            return compute()
        key = id(self), name
        if key not in _cache:
            _cache[key] = compute()
        return _cache[key]

    def put(self, value):
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


def _check_addition(module, name, parametrization):
    """One more parametrization must keep dtype and shape, forward and back."""
    before = getattr(module, name)
    after = parametrization(before)
    _require(_is_tensor(after), f"A parametrization must return a tensor. Got {_kind(after)}.")
    unlike = _unlike(after, before, ("dtype", "shape"))
    if unlike is not None:
        kind, new, old = unlike
        raise ValueError(
            f"Registering a parametrization may not change the {kind} of the tensor, unless the `unsafe` flag is "
            f"enabled.\nmodule.{name}.{kind}: {old}\nparametrization(module.{name}).{kind}: {new}"
        )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(after)
    except NotImplementedError:
        return
    _require(_is_tensor(back), f"parametrization.right_inverse must return a tensor. Got: {_kind(back)}")
    unlike = _unlike(back, before, ("dtype", "shape"))
    if unlike is not None:
        kind, new, old = unlike
        raise ValueError(
            f"The tensor returned by parametrization.right_inverse must have the same {kind} as module.{name}, unless "
            f"the `unsafe` flag is enabled.\nmodule.{name}.{kind}: {old}\nreturned {kind}: {new}"
        )


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """Compute a parameter or buffer of `module` by `parametrization`, from the tensor that it is now."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_addition(module, tensor_name, parametrization)
        chain = module.parametrizations[tensor_name]
        chain.append(parametrization)
        chain.unsafe |= unsafe
        return module
    if not any(tensor_name in table for table in (module._buffers, module._parameters)):
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'"
        )
    chain = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _inject_new_class(module)
        module.parametrizations = ModuleDict()
    _inject_property(module, tensor_name)
    module.parametrizations[tensor_name] = chain
    return module


def is_parametrized(module, tensor_name=None):
    """Whether a module (or one tensor of it) is parametrized."""
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Make a tensor plain again, with its computed value or with the original one."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    chain = module.parametrizations[tensor_name]
    _require(
        leave_parametrized or chain.is_tensor,
        "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a sequence of "
        "tensors.",
    )
    if leave_parametrized:
        with _C.no_grad():
            value = getattr(module, tensor_name)
    if chain.is_tensor:
        plain = chain.original
        if leave_parametrized:
            _set(plain, value)
    elif chain._parameters:
        plain = Parameter(value.detach().clone(), any(p.requires_grad for p in chain._parameters.values()))
    else:
        plain = value
    cls = type(module)
    delattr(cls, tensor_name)
    del module.parametrizations[tensor_name]
    _adopt(module, tensor_name, plain)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = cls.__bases__[0]
    return module


def type_before_parametrizations(module):
    """The class of a module, as it was before parametrizations."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """Copy the parametrizations (of one tensor or of all) and their tensors to another module."""
    if not is_parametrized(from_module):
        return to_module
    for name in from_module.parametrizations if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(copy.deepcopy(getattr(from_module, name))))
        source = from_module.parametrizations[name]
        for module in source:
            register_parametrization(to_module, name, copy.deepcopy(module))
        target = to_module.parametrizations[name]
        for original in ("original",) if source.is_tensor else (f"original{i}" for i in range(source.ntensors)):
            setattr(target, original, copy.deepcopy(getattr(source, original)))
    return to_module
