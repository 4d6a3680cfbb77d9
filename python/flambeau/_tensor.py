"""What `Tensor` can do beside operators: the methods written in Python, put on the core's type when imported."""
from builtins import type as _kind

from . import _C, _removed, _reflected
from ._typed import tensortype, type_name, type_of_name

Tensor = _C.Tensor
_METHODS = {}


def _method(fn):
    """Make it a method of Tensor."""
    fn.__qualname__ = "Tensor." + fn.__name__
    fn.__module__ = "flambeau"
    _METHODS[fn.__name__] = fn
    return fn


def _overridable_method(fn):
    """The same for a method that classes and modes with `__torch_function__` may answer."""
    name = fn.__name__

    def method(self, *args, **kwargs):
        if _kind(self) is not Tensor or args or kwargs or _C._len_torch_function_stack():
            operands = (self, *args, *kwargs.values()) if args or kwargs else (self,)
            if _C.has_torch_function(operands):
                relevant = [a for a in operands if hasattr(_kind(a), "__torch_function__")]
                return _C.handle_torch_function(method, relevant, self, *args, **kwargs)
        return fn(self, *args, **kwargs)

    method.__name__, method.__doc__, method.__wrapped__ = name, fn.__doc__, fn
    return _method(method)


# ---- protocol of subclasses ------------------------------------------------------------------------


def _as_class(result, cls):
    """Results of an operator as instances of a subclass, also within tuples and lists."""
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else result.as_subclass(cls)
    if isinstance(result, (tuple, list)) and any(isinstance(r, (Tensor, tuple, list)) for r in result):
        kind = _kind(result)
        items = [_as_class(r, cls) for r in result]
        # Named tuples of operators take a sequence, others the fields one by one.
        return kind(*items) if hasattr(kind, "_fields") else kind(items)
    return result


_unwrapped = None


def _never_wrapped():
    """Getters whose results stay as they are: gradients and bases have a class of their own."""
    global _unwrapped
    if _unwrapped is None:
        _unwrapped = {getattr(Tensor, name).__get__ for name in ("grad", "_grad", "_base") if hasattr(Tensor, name)}
    return _unwrapped


def _torch_function(cls, func, types, args=(), kwargs=None):
    """What a subclass does with an operator unless it says otherwise: run it, and give results its own class."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with _C.DisableTorchFunctionSubclass():
        result = func(*args, **kwargs) if kwargs else func(*args)
    return result if cls is Tensor or func in _never_wrapped() else _as_class(result, cls)


_torch_function.__name__ = "__torch_function__"


@staticmethod
def _make_subclass(cls, data, require_grad=False):
    """A leaf of a subclass over the memory of another tensor; the class's `__init__` is not called."""
    if not (isinstance(cls, _kind) and issubclass(cls, Tensor)):
        raise TypeError("Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make "
                        "sure your class inherits from Tensor.")
    if not isinstance(data, Tensor):
        raise TypeError(f"_make_subclass(): argument 'data' (position 2) must be Tensor, not {_kind(data).__name__}")
    if require_grad and not (data.dtype.is_floating_point or data.dtype.is_complex):
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    with _C.DisableTorchFunctionSubclass():
        return data.detach().as_subclass(cls).requires_grad_(require_grad)


@staticmethod
def _make_wrapper_subclass(cls, size, *args, **kwargs):
    """Refused: tensors without memory of their own live by `__torch_dispatch__`, which Flambeau does not call."""
    raise NotImplementedError(f"{cls.__name__}: Flambeau calls no __torch_dispatch__, so a tensor that only wraps others "
                              "cannot compute; derive from Tensor and override __torch_function__")


_METHODS.update(_make_subclass=_make_subclass, _make_wrapper_subclass=_make_wrapper_subclass)


# ---- autograd --------------------------------------------------------------------------------------


@_overridable_method
def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Add the gradient of this tensor to the `.grad` of the leaves it was computed from."""
    from .autograd import backward as run

    run(self, gradient, retain_graph, create_graph, inputs=inputs)


@_method
def reinforce(self, reward):
    """Removed in PyTorch."""
    _removed.reinforce()


# ---- types and new tensors ---------------------------------------------------------------------------


@_overridable_method
def type(self, dtype=None, non_blocking=False, **kwargs):
    """The name of its old tensor class, or the tensor as that class or dtype."""
    if dtype is None:
        return type_name(self)
    if isinstance(dtype, _C.dtype):
        return self.to(dtype)
    if isinstance(dtype, str):
        kind, device = type_of_name(dtype)
    elif isinstance(dtype, tensortype):
        kind, device = dtype.dtype, "cpu"
    elif dtype is Tensor:
        kind, device = _C.get_default_dtype(), "cpu"
    else:
        raise RuntimeError("dtype must be a type, str, or dtype object")
    return self.to(device=device, dtype=kind)


@_overridable_method
def type_as(self, tensor):
    """The tensor with the dtype and device of another."""
    return self.to(device=tensor.device, dtype=tensor.dtype)


@_overridable_method
def new(self, *args, device=None):
    """A tensor of the same dtype, from sizes or data as `Tensor(...)` takes them."""
    made = _C._legacy_tensor(args, self.dtype)
    return made if self.device.type == "cpu" else made.to(self.device)


@_overridable_method
def new_tensor(self, *args, **kwargs):
    """`new_tensor(data, *, dtype=None, device=None, requires_grad=False)`: a copy of the data, of this tensor's dtype and device
    unless others are given."""
    return _new_tensor(self, *_checked("new_tensor", ("data",), _NEW_TENSOR_OPTIONS, args, kwargs), **kwargs)


_NEW_TENSOR_OPTIONS = frozenset(("dtype", "device", "requires_grad", "layout", "pin_memory"))


def _checked(function, names, options, args, kwargs):
    """The positional arguments of a method, some of which came by name; refuses calls as the core does."""
    if len(args) > len(names):
        s, were = ("" if len(names) == 1 else "s"), ("was" if len(args) == 1 else "were")
        raise TypeError(f"{function}() takes {len(names)} positional argument{s} but {len(args)} {were} given")
    found = [*args, *(kwargs.pop(name) for name in names[len(args) :] if name in kwargs)]
    if len(found) < len(names):
        absent = ", ".join(f'"{name}"' for name in names[len(found) :])
        raise TypeError(f"{function}() missing {len(names) - len(found)} required positional arguments: {absent}")
    for name in kwargs:
        if name not in options:
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
    return found


def _new_tensor(self, data, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    device = self.device if device is None else device
    if isinstance(data, Tensor):
        _warn("To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
              "sourceTensor.detach().clone().requires_grad_(True), rather than tensor.new_tensor(sourceTensor).", depth=5)
        data = data.detach().clone().to(self.dtype if dtype is None else dtype).to(device)
        return data.requires_grad_() if requires_grad else data
    return _C.tensor(data, dtype=self.dtype if dtype is None else dtype, device=device, requires_grad=requires_grad)


@_overridable_method
def resize(self, *sizes):
    """Deprecated: `reshape` to a size of as many elements."""
    _warn("non-inplace resize is deprecated")
    sizes = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    return self.reshape(sizes)


@_overridable_method
def resize_as(self, tensor):
    """Deprecated: `reshape` to the size of another tensor."""
    _warn("non-inplace resize_as is deprecated")
    return self.reshape(tensor.shape)


def _warn(text, category=UserWarning, depth=4):
    import warnings

    warnings.warn(text, category, stacklevel=depth)


# ---- functions of torch.functional as methods ----------------------------------------------------------


def _functional(name):
    def method(self, *args, **kwargs):
        from . import functional

        return getattr(functional, name)(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"See flambeau.{name}."
    _method(method)


for _name in "norm unique unique_consecutive stft istft".split():
    _functional(_name)


@_method
def lu(self, pivot=True, get_infos=False):
    """See flambeau.lu."""
    from . import functional

    return functional.lu(self, pivot=pivot, get_infos=get_infos)


@_overridable_method
def is_nonzero(self):
    """Whether its one element is not zero."""
    if self.numel() != 1:
        kind = "no values" if self.numel() == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {kind} is ambiguous")
    return bool(self)


@_overridable_method
def dim_order(self, *, ambiguity_check=False):
    """The dimensions from the one with the largest stride to the smallest."""
    if ambiguity_check is not False:
        return _checked_dim_order(self, ambiguity_check)
    return _dim_order(self)


def _dim_order(tensor):
    strides = tensor.stride()
    return tuple(sorted(range(len(strides)), key=lambda d: -strides[d]))


_FORMATS = ("contiguous_format", "channels_last", "channels_last_3d")


def _checked_dim_order(tensor, check):
    formats = [getattr(_C, name) for name in _FORMATS] if check is True else check
    if not isinstance(formats, list) or not all(isinstance(f, _C.memory_format) for f in formats):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    ranks = {_C.channels_last: 4, _C.channels_last_3d: 5}
    fitting = [f for f in formats if ranks.get(f, tensor.ndim) == tensor.ndim and tensor.is_contiguous(memory_format=f)]
    if check is True:
        # A dim of size 1, or one that repeats its elements, could stand anywhere.
        ambiguous = 1 in tensor.shape or 0 in tensor.stride() or len(set(tensor.stride())) < tensor.ndim
    else:
        ambiguous = len(fitting) > 1 or len(set(zip(tensor.stride(), tensor.shape))) < tensor.ndim
    if ambiguous:
        raise RuntimeError("The tensor does not have unique dim order, or cannot map to exact one of the given memory "
                           "formats.")
    return _dim_order(tensor)


# ---- element by element, with Python functions ---------------------------------------------------------


def _elementwise(name, count):
    def method(self, *args):
        *others, function = args
        for tensor in (self, *others):
            if tensor.requires_grad:
                raise RuntimeError(f"Can't call {name}() on Variable that requires grad. "
                                   f"Use var.detach().{name}() instead.")
            if tensor.device.type != "cpu":
                raise TypeError(f"{name} is only implemented on CPU tensors")
        columns = [self.flatten().tolist()]
        columns += [o.expand(self.shape).flatten().tolist() for o in others]
        values = [function(*row) for row in zip(*columns)]
        return self.copy_(_C.tensor(values, dtype=self.dtype).view(self.shape))

    method.__name__ = name
    method.__doc__ = f"Replace each element by what a Python function gives for {'it' if count == 1 else 'those of all'}."
    _method(method)


_elementwise("apply_", 1)
_elementwise("map_", 2)
_elementwise("map2_", 3)


# ---- Python's protocols ------------------------------------------------------------------------------


@_overridable_method
def __format__(self, format_spec):
    if self.dim() == 0 and not self.is_meta and _kind(self) is Tensor:
        return self.item().__format__(format_spec)
    return object.__format__(self, format_spec)


@_overridable_method
def __reversed__(self):
    return self if self.dim() == 0 else self.flip(0)


@_overridable_method
def __dir__(self):
    names = {*dir(_kind(self)), *self.__dict__} - {"volatile"}
    if not self.is_cuda:
        names.discard("__cuda_array_interface__")
    return sorted(n for n in names if not n[0].isdigit())


del __dir__  # Under this name it would answer for the module.


@_overridable_method
def __array__(self, dtype=None):
    array = self.numpy()
    return array if dtype is None else array.astype(dtype, copy=False)


@_overridable_method
def __array_wrap__(self, array):
    if array.dtype == bool:
        array = array.astype("uint8")
    return _C.from_numpy(array)


def _cuda_array_interface(self):
    raise AttributeError(f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {self.type()} If CUDA data is "
                         "required use tensor.cuda() to copy tensor to device memory.")


@_overridable_method
def __rdiv__(self, other):
    reciprocal = self.reciprocal()
    try:
        return reciprocal * other
    except TypeError:
        return NotImplemented


# ---- copies and pickles --------------------------------------------------------------------------------


@_overridable_method
def __deepcopy__(self, memo):
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
            "see https://github.com/pytorch/pytorch/pull/103001")
    if id(self) in memo:
        return memo[id(self)]
    from copy import deepcopy

    cls = _kind(self)
    with _C.DisableTorchFunctionSubclass():
        made = _copy_of_memory(self, memo)
    if cls is not Tensor:
        made = _in_class_of(self, made)
    if self.requires_grad:
        made.requires_grad_()
    memo[id(self)] = made
    if self.grad is not None:
        made.grad = deepcopy(self.grad, memo)
    for name, value in self.__dict__.items():
        made.__dict__[name] = deepcopy(value, memo)
    return made


def _copy_of_memory(tensor, memo):
    """A tensor over a copy of its storage; tensors that share one share its copy within a deepcopy."""
    if tensor.device.type == "meta":
        return _C.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    if str(tensor.layout) != "torch.strided":
        return tensor.detach().clone()
    storage = tensor.untyped_storage()
    copies = memo.setdefault("flambeau storages", {})
    key = (str(storage.device), storage.data_ptr())
    if not storage.nbytes() or key not in copies:
        # The original stays in the memo too, so that its address is not used again meanwhile.
        copies[key] = (storage.clone(), storage)
    made = _C.empty(0, dtype=tensor.dtype, device=tensor.device)
    return made.set_(copies[key][0], tensor.storage_offset(), tensor.shape, tensor.stride())


def _in_class_of(tensor, made):
    cls = _kind(tensor)
    if cls.__torch_function__ is not _C._disabled_torch_function_impl:
        if _kind(tensor.new_empty([])) is not cls:
            raise RuntimeError(
                "The default implementation of __deepcopy__() for non-wrapper subclasses only works for subclass types "
                "that implement new_empty() and for which that function returns another instance of the same subclass. "
                "You should either properly implement new_empty() for your subclass or override __deepcopy__() if it is "
                "intended behavior for new_empty() to return an instance of a different type.")
    return made.as_subclass(cls)


@_method
def __reduce_ex__(self, proto):
    """A function of flambeau._utils and its arguments: the storage and the view of it."""
    if _kind(self) is not Tensor and _C.has_torch_function_unary(self):
        return _C.handle_torch_function(Tensor.__reduce_ex__, (self,), self, proto)
    with _C.DisableTorchFunctionSubclass():
        rebuild = _reduced(self)
    cls = _kind(self)
    state = self.__dict__
    if cls is Tensor and not state:
        return rebuild
    return _rebuild_from_type_v2, (rebuild[0], cls, rebuild[1], dict(state) or None)


def _reduced(tensor):
    from collections import OrderedDict

    from . import _utils
    from .storage import TypedStorage
    from .utils.hooks import warn_if_has_hooks

    if getattr(tensor, "_backward_hooks", None):
        warn_if_has_hooks(tensor)
    requires_grad = tensor.requires_grad
    if not tensor.is_leaf:
        tensor = tensor.detach()
    if str(tensor.layout) != "torch.strided":
        names = ("_indices", "_values") if tensor.is_sparse else ("crow_indices", "col_indices", "values")
        tensor = tensor.detach()
        parts = (*(getattr(tensor, name)() for name in names), tensor.size())
        coalesced = (tensor.is_coalesced(),) if tensor.is_sparse else ()
        return _utils._rebuild_sparse_tensor, (tensor.layout, (*parts, *coalesced))
    if tensor.device.type == "meta":
        arguments = (tensor.dtype, tuple(tensor.shape), tensor.stride(), requires_grad)
        return _utils._rebuild_meta_tensor_no_storage, arguments
    storage = TypedStorage(wrap_storage=tensor.untyped_storage(), dtype=tensor.dtype, _internal=True)
    view = (tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
    arguments = (storage, *view, requires_grad, OrderedDict())
    metadata = _utils.get_tensor_metadata(tensor)
    return _utils._rebuild_tensor_v2, (*arguments, metadata) if metadata else arguments


def _rebuild_from_type(func, cls, args, attributes):
    """A tensor of a subclass, from how plain tensors are rebuilt."""
    return _rebuild_from_type_v2(func, cls, args, attributes)


def _rebuild_from_type_v2(func, new_type, args, state):
    """The same, with attributes that the class may set in its `__setstate__`."""
    from ._utils import _set_obj_state

    made = func(*args)
    if _kind(made) is not new_type:
        made = made.as_subclass(new_type)
    own = getattr(new_type, "__setstate__", Tensor.__setstate__)
    if own is not Tensor.__setstate__:
        made.__setstate__(state)
        return made
    return _set_obj_state(made, state) if state else made


@_method
def __setstate__(self, state):
    """Take over the memory and view of a pickle from PyTorch's early days."""
    if not self.is_leaf:
        raise RuntimeError("__setstate__ can be only called on leaf Tensors")
    if len(state) == 4:
        self.set_(*state)
        return
    if len(state) == 5:
        self.data, state = state[0], (state[3], state[4], state[2])
    self.requires_grad, _, self._backward_hooks = state


# ---- storage -------------------------------------------------------------------------------------------


@_overridable_method
def storage(self):
    """Its memory as elements of its dtype (deprecated; see `untyped_storage`)."""
    from .storage import TypedStorage, warn_deprecated

    warn_deprecated(stacklevel=3)
    return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype, _internal=True)


@_method
def _typed_storage(self):
    from .storage import TypedStorage

    return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype, _internal=True)


@_overridable_method
def storage_type(self):
    """The class of its typed storage."""
    from .storage import class_of_dtype, warn_deprecated

    warn_deprecated(stacklevel=3)
    return class_of_dtype(self.dtype)


@_overridable_method
def to_padded_tensor(self, padding, output_size=None):
    """What nested tensors answer; NotImplementedError for others."""
    raise NotImplementedError(f"Could not run 'aten::to_padded_tensor' with arguments from the '{self.device.type.upper()}' "
                              "backend: only nested tensors are padded.")


@_overridable_method
def to_sparse_coo(self):
    """The same tensor as coordinates and values."""
    return self.to_sparse()


@_overridable_method
def is_shared(self):
    """Whether processes made by `fork` write the same memory."""
    from .storage import is_shared_memory

    return is_shared_memory(self)


@_overridable_method
def share_memory_(self):
    """Move it to memory that processes made by `fork` write too."""
    from .storage import move_to_shared_memory

    return move_to_shared_memory(self)


@_overridable_method
def module_load(self, other, assign=False):
    """What `Module.load_state_dict` puts in place of this tensor (with swapped tensors)."""
    if assign:
        return other.detach()
    return self.copy_(other).detach()


# ---- devices that are not there ------------------------------------------------------------------------


def _elsewhere(name, message, error=RuntimeError):
    def method(self, device=None, non_blocking=False, memory_format=None):
        if name == "cuda":
            from . import cuda

            if cuda.is_available():
                return self.to("cuda" if device is None else device, non_blocking=non_blocking)
        raise error(message)

    method.__name__ = name
    method.__doc__ = f"The tensor on a device of kind '{name}'."
    _method(method)


_elsewhere("cuda", "Torch not compiled with CUDA enabled", AssertionError)
_elsewhere("xpu", "Torch not compiled with XPU enabled", AssertionError)
_elsewhere("ipu", "Could not run 'aten::empty.memory_format' with arguments from the 'IPU' backend.")
_elsewhere("mtia", "Torch not compiled with MTIA enabled.", AssertionError)


@_method
def pin_memory(self, device=None):
    """The tensor itself: no device would gain by page-locked memory."""
    return self


def _volatile(self):
    _warn("volatile was removed (Variable.volatile is always False)")
    return False


def _grad_dtype(self):
    return self.dtype


for _name in ("eig", "solve", "lstsq", "symeig"):
    _METHODS[_name] = getattr(_removed, _name)
# Where the core has one of these, its own is used.
_UNLESS_NATIVE = frozenset(("pin_memory", "type_as", "new_tensor", "new", "is_nonzero", "storage"))
_ALIASES = {"__nonzero__": "__bool__", "__long__": "__int__", "__div__": "__truediv__", "__idiv__": "__itruediv__"}


def _named_result_text(result):
    """The repr of `return_types.max` and the like: a line for each field."""
    cls = _kind(result)
    lines = ",\n".join(f"{name}={value!r}" for name, value in zip(cls.__match_args__, result))
    return f"torch.return_types.{cls.__name__}(\n{lines})"


def _attach():
    _C._set_result_repr(_named_result_text)
    for name, method in _METHODS.items():
        if name not in _UNLESS_NATIVE or not hasattr(Tensor, name):
            setattr(Tensor, name, method)
    for name, other in _ALIASES.items():
        setattr(Tensor, name, getattr(Tensor, other))
    _reflected.install(Tensor)
    Tensor.__torch_function__ = classmethod(_torch_function)
    Tensor.__array_priority__ = 1000
    Tensor.__cuda_array_interface__ = property(_cuda_array_interface)
    Tensor.volatile = property(_volatile)
    # A number for each tensor: there is one object for it as long as that lives.
    Tensor._cdata = property(id)
    if not hasattr(Tensor, "grad_dtype"):
        Tensor.grad_dtype = property(_grad_dtype)
    if not hasattr(Tensor, "_backward_hooks"):
        Tensor._backward_hooks = None


_attach()
