"""`__torch_function__`: how classes and modes answer for PyTorch's functions."""
import contextlib
import functools
import types

import flambeau as fl

from . import _C

__all__ = [
    "get_ignored_functions", "get_overridable_functions", "get_testing_overrides", "handle_torch_function",
    "has_torch_function", "resolve_name", "is_tensor_like", "is_tensor_method_or_property", "wrap_torch_function",
    "enable_reentrant_dispatch", "redispatch_function",
]  # fmt: skip

has_torch_function = _C.has_torch_function
has_torch_function_unary = _C.has_torch_function_unary
has_torch_function_variadic = _C.has_torch_function_variadic
_disabled_torch_function_impl = _C._default_torch_function


class TorchFunctionMode:
    """Inside `with mode:`, every call of a PyTorch function goes to the mode's `__torch_function__`."""

    def __init__(self):
        pass

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        _C._push_torch_function_mode(self)
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        _C._pop_torch_function_mode()

    @classmethod
    def push(cls, *args, **kwargs):
        """A mode made of these arguments."""
        import warnings

        warnings.warn("`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`", stacklevel=2)
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that only passes calls on."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _len_torch_function_stack():
    return _C._len_torch_function_stack()


def _get_current_function_mode():
    n = _len_torch_function_stack()
    return _C._get_torch_function_mode_at(n - 1) if n else None


def _get_current_function_mode_stack():
    return [_C._get_torch_function_mode_at(i) for i in range(_len_torch_function_stack())]


@contextlib.contextmanager
def _pop_mode_temporarily():
    mode = _C._pop_torch_function_mode()
    try:
        yield mode
    finally:
        _C._push_torch_function_mode(mode)


@contextlib.contextmanager
def _enable_torch_function():
    """Lets calls inside a mode's handler reach the modes again."""
    yield


def enable_reentrant_dispatch():
    """A context for compatibility: dispatch is always re-entrant."""
    return contextlib.nullcontext()


def _overloaded_args(relevant_args, get_type=type):
    """The arguments that answer, one of each class, subclasses before their bases."""
    seen, answering = set(), []
    for arg in relevant_args:
        kind = get_type(arg)
        handler = getattr(kind, "__torch_function__", None)
        if kind in seen or handler is None or handler == _disabled_torch_function_impl or kind is _C.Tensor:
            continue
        seen.add(kind)
        place = next((i for i, old in enumerate(answering) if issubclass(kind, get_type(old))), len(answering))
        answering.insert(place, arg)
    return answering


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Asks the current mode, then each overriding argument, to compute public_api(*args, **kwargs)."""
    answering = _overloaded_args(relevant_args)
    kinds = tuple(map(type, answering))
    if _len_torch_function_stack() > 0:
        with _pop_mode_temporarily() as mode:
            result = mode.__torch_function__(public_api, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    for arg in answering:
        result = type(arg).__torch_function__(public_api, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    name = f"{public_api.__module__}.{public_api.__name__}"
    message = f"no implementation found for '{name}' on types that implement __torch_function__: {list(kinds)}"
    mode = _get_current_function_mode()
    raise TypeError(message + (f" nor in mode {mode}" if mode is not None else ""))


def wrap_torch_function(dispatcher):
    """Decorates a function so that the arguments that `dispatcher` returns can override it."""

    def inner(func):
        @functools.wraps(func)
        def wrapped(*args, **kwargs):
            relevant_args = dispatcher(*args, **kwargs)
            if has_torch_function(relevant_args):
                return handle_torch_function(wrapped, relevant_args, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return inner


def redispatch_function(func, types, args, kwargs=None):
    """Calls a function past one level of `__torch_function__`."""
    with _C.DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def is_tensor_like(inp):
    """Is it a tensor, or does its class have `__torch_function__`?"""
    return type(inp) is _C.Tensor or hasattr(type(inp), "__torch_function__")


# What `__torch_function__` never sees: no tensor comes in, or the answer must not depend on one.
_IGNORED = (
    "typename is_tensor is_storage set_default_tensor_type set_default_device get_default_device set_rng_state "
    "get_rng_state manual_seed initial_seed seed save load set_printoptions fork get_default_dtype "
    "get_num_interop_threads get_num_threads init_num_threads import_ir_module import_ir_module_from_buffer "
    "is_anomaly_enabled is_anomaly_check_nan_enabled is_grad_enabled merge_type_from_type_comment parse_ir "
    "parse_schema parse_type_comment set_anomaly_enabled set_flush_denormal set_num_interop_threads set_num_threads "
    "wait as_tensor from_numpy tensor default_generator has_cuda has_cudnn has_lapack device dtype finfo "
    "has_mkl has_mps has_mkldnn has_openmp iinfo memory_format qscheme set_grad_enabled no_grad enable_grad "
    "inference_mode is_inference_mode_enabled layout align_tensors arange as_strided bartlett_window blackman_window "
    "broadcast_shapes can_cast compile cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution "
    "cudnn_convolution_transpose cudnn_convolution_relu cudnn_convolution_add_relu cudnn_grid_sampler "
    "cudnn_is_acceptable empty empty_permuted empty_strided empty_quantized export eye from_file full fill "
    "hamming_window hann_window kaiser_window linspace logspace mkldnn_adaptive_avg_pool2d mkldnn_convolution "
    "mkldnn_max_pool2d mkldnn_max_pool3d mkldnn_linear_backward_weights mkldnn_rnn_layer normal ones promote_types "
    "rand randn randint randperm range result_type scalar_tensor sparse_coo_tensor sparse_compressed_tensor "
    "sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor tril_indices triu_indices vander zeros "
    "unravel_index is_autocast_enabled set_autocast_enabled is_deterministic_algorithms_warn_only_enabled "
    "set_deterministic_debug_mode get_deterministic_debug_mode set_float32_matmul_precision "
    "get_float32_matmul_precision are_deterministic_algorithms_enabled use_deterministic_algorithms "
    "is_warn_always_enabled set_warn_always vitals_enabled set_vital read_vitals cond compiled_with_cxx11_abi"
)
_IGNORED_METHODS = (
    "__delitem__ __dir__ __getattribute__ __init__ __iter__ __init_subclass__ __delattr__ __setattr__ "
    "__torch_function__ __torch_dispatch__ __new__ __class__ __subclasshook__ __hash__ as_subclass eig lstsq "
    "reinforce new new_tensor new_empty new_empty_strided new_zeros new_ones new_full _make_subclass solve symeig "
    "stride unflatten to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc _typed_storage "
    "_reduce_ex_internal _fix_weakref _view_func _view_func_unsafe _rev_view_func_unsafe _make_wrapper_subclass "
    "_has_symbolic_sizes_strides to_sparse module_load __dlpack__ __dlpack_device__"
)


@functools.lru_cache(None)
def get_ignored_functions():
    """The functions that cannot be overridden."""
    functions = {getattr(fl, n) for n in _IGNORED.split() if hasattr(fl, n)}
    return functions | {getattr(_C.Tensor, n) for n in _IGNORED_METHODS.split() if hasattr(_C.Tensor, n)}


@functools.lru_cache(None)
def get_default_nowrap_functions():
    """Functions whose results are not turned into the subclass of their argument."""
    return {getattr(_C.Tensor, n).__get__ for n in ("_base", "grad", "_grad") if hasattr(_C.Tensor, n)}


def _namespaces():
    import importlib

    for prefix, path in (
        ("torch", ""), ("torch.functional", "functional"), ("torch.nn.functional", "nn.functional"),
        ("torch.nn.init", "nn.init"), ("torch.linalg", "linalg"), ("torch.fft", "fft"), ("torch.special", "special"),
    ):  # fmt: skip
        try:
            space = importlib.import_module("flambeau." + path) if path else fl
        except ImportError:
            continue
        names = getattr(space, "__all__", None) or [n for n in dir(_C if space is fl else space) if n[0] != "_"]
        yield prefix, space, names
    yield "torch.Tensor", _C.Tensor, dir(_C.Tensor)


@functools.lru_cache(None)
def _overridable():
    """(function, the namespace it is listed under, its full name), each function once."""
    ignored, seen, found = get_ignored_functions(), set(), []
    for prefix, space, names in _namespaces():
        for name in names:
            if space is not _C.Tensor and (name[0].isupper() or name.startswith("_")):
                continue
            value = getattr(space, name, None)
            if isinstance(value, (property, types.GetSetDescriptorType)):
                value, shown = value.__get__, f"{prefix}.{name}.__get__"
            elif callable(value) and not isinstance(value, type) and not isinstance(value, types.ModuleType):
                shown = f"{prefix}.{name}"
            else:
                continue
            try:
                if value in ignored or value in seen or (space is _C.Tensor and getattr(object, name, None) is value):
                    continue
            except TypeError:
                continue
            seen.add(value)
            found.append((value, space, shown))
    return found


@functools.lru_cache(None)
def get_overridable_functions():
    """Namespaces, each with the functions in it that can be overridden."""
    result = {}
    for function, space, _ in _overridable():
        result.setdefault(space, []).append(function)
    return result


@functools.lru_cache(None)
def get_testing_overrides():
    """For every overridable function a dummy that accepts any arguments and gives -1."""
    return {function: lambda *args, **kwargs: -1 for function, _, _ in _overridable()}


@functools.lru_cache(None)
def _names():
    return {function: name for function, _, name in _overridable()}


def resolve_name(f):
    """The full name of a function, as 'torch.nn.functional.relu'; None if it is not known."""
    if isinstance(f, str):
        return f
    try:
        return _names().get(f)
    except TypeError:
        return None


@functools.lru_cache(None)
def _tensor_methods():
    return {function for function, space, _ in _overridable() if space is _C.Tensor}


def is_tensor_method_or_property(func):
    """Is it a method of Tensor, or the getter of one of its properties?"""
    return func in _tensor_methods() or getattr(func, "__name__", "") == "__get__"
