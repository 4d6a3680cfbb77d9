"""`Parameter`, `Buffer` and their uninitialized forms."""
from collections import OrderedDict

from .. import _C
from .._C import Tensor

__all__ = ["Parameter", "UninitializedParameter", "is_lazy", "Buffer", "UninitializedBuffer", "UninitializedTensorMixin"]

# A class whose `__torch_function__` is this builtin is a plain Tensor to every operator.
_plain_torch_function = _C._disabled_torch_function_impl


def _extra_attributes(tensor) -> dict:
    return {k: v for k, v in getattr(tensor, "__dict__", {}).items() if k not in ("_is_param",)}


class _ParameterMeta(type(Tensor)):
    """Custom tensor subclasses become parameters by a mark, not by a class: `isinstance` honours it."""

    def __instancecheck__(self, instance):
        if self is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False):
            return True
        return super().__instancecheck__(instance)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that a `Module` counts among its parameters when assigned as an attribute."""

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = _C.empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            return _C._make_subclass(cls, data, requires_grad)
        marked = data.detach().requires_grad_(requires_grad)
        if type(marked) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns an "
                f"instance of the same type, but return type {type(marked).__name__} was found instead. To use the type as "
                "a Parameter, please correct the detach() semantics defined by its __torch_dispatch__() implementation."
            )
        marked._is_param = True
        return marked

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        copy = type(self)(self.data.clone(memory_format=_C.preserve_format), self.requires_grad)
        memo[id(self)] = copy
        return copy

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, proto):
        from .._utils import _rebuild_parameter, _rebuild_parameter_with_state

        args = (self.data, self.requires_grad, OrderedDict())
        state = _extra_attributes(self)
        if state:
            return _rebuild_parameter_with_state, (*args, state)
        return _rebuild_parameter, args

    __torch_function__ = _plain_torch_function


# Operators need not ask it for `__torch_function__`.
_C._set_parameter_class(Parameter)


class _BufferMeta(type(Tensor)):
    def __instancecheck__(self, instance):
        if self is Buffer and isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False):
            return True
        return super().__instancecheck__(instance)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that a `Module` registers as a buffer when assigned as an attribute."""

    def __new__(cls, data=None, *, persistent=True):
        if data is None:
            data = _C.empty(0)
        buffer = data.detach().requires_grad_(data.requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer

    __torch_function__ = _plain_torch_function


_UNINITIALIZED = (
    "Attempted to use an uninitialized parameter in {}. This error happens when you are using a `LazyModule` or explicitly "
    "manipulating `torch.nn.parameter.{}` objects. When using LazyModules Call `forward` with a dummy batch to initialize "
    "the parameters before calling torch functions"
)


def _allowed_when_uninitialized() -> frozenset:
    """What may be asked of a tensor that has no shape yet."""
    methods = "__hash__ __format__ __repr__ __deepcopy__ __reduce_ex__ _is_param requires_grad_ as_subclass detach " \
        "copy_ is_complex is_floating_point half float double char short int long cuda cpu to get_device apply_ " \
        "retain_grad register_hook type"
    properties = "dtype device is_cuda is_leaf requires_grad grad grad_fn data layout is_meta is_sparse"
    found = [getattr(Tensor, m) for m in methods.split() if hasattr(Tensor, m)]
    found += [getattr(Tensor, p).__get__ for p in properties.split() if hasattr(Tensor, p)]
    return frozenset(found)


class UninitializedTensorMixin:
    """A tensor whose shape is not known until `materialize(shape)`."""

    _allowed = None

    def materialize(self, shape, device=None, dtype=None):
        """Give the tensor its shape (contents uninitialized) and its final class."""
        device = self.data.device if device is None else device
        dtype = self.data.dtype if dtype is None else dtype
        self.data = _C.empty(shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self):
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` to "
            "initialize the parameters before accessing their attributes."
        )

    def share_memory_(self):
        """Refused: there is no memory yet."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __repr__(self):
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, proto):
        return type(self), (self.requires_grad,)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if UninitializedTensorMixin._allowed is None:
            UninitializedTensorMixin._allowed = _allowed_when_uninitialized()
        if func in UninitializedTensorMixin._allowed or type(func).__name__ == "method-wrapper":
            return super().__torch_function__(func, types, args, kwargs or {})
        raise ValueError(_UNINITIALIZED.format(func, "UninitializedParameter"))


def is_lazy(param) -> bool:
    """Whether a parameter or buffer has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter without a shape yet: lazy modules hold these until their first call."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        data = _C.empty(0, device=device, dtype=dtype)
        return data.as_subclass(cls).requires_grad_(requires_grad)

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        copy = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        memo[id(self)] = copy
        return copy


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer without a shape yet."""

    cls_to_become = Tensor

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        data = _C.empty(0, device=device, dtype=dtype)
        buffer = data.as_subclass(cls).requires_grad_(requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer
