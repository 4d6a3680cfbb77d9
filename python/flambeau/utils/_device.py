"""The default device: `set_default_device`, and `with device('meta'):`."""
from functools import wraps

from .. import _C
from ..overrides import TorchFunctionMode

# Functions that make tensors and take `device=`.
_CONSTRUCTORS = (
    "empty empty_permuted empty_strided empty_quantized ones arange bartlett_window blackman_window eye fft_fftfreq "
    "fft_rfftfreq full hamming_window hann_window kaiser_window linspace logspace nested_tensor rand randn "
    "randint randperm range sparse_coo_tensor sparse_compressed_tensor sparse_csr_tensor sparse_csc_tensor "
    "sparse_bsr_tensor sparse_bsc_tensor tril_indices triu_indices zeros asarray tensor as_tensor scalar_tensor"
).split()
_constructors = None


def _takes_device(function):
    global _constructors
    if _constructors is None:
        import flambeau as fl

        found = {getattr(_C, name, None) for name in _CONSTRUCTORS}
        found.add(getattr(fl, "asarray", None))
        _constructors = frozenset(found - {None})
    return function in _constructors


class DeviceContext(TorchFunctionMode):
    """Inside, functions that make tensors make them on a device unless another is given."""

    def __init__(self, device):
        super().__init__()
        self.device = _C.device(device)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if kwargs.get("device") is None and _takes_device(func):
            kwargs = {**kwargs, "device": self.device}
        return func(*args, **kwargs)


def enter(device):
    """`with device:` begins."""
    _C._push_torch_function_mode(DeviceContext(device))


def exit(device):
    """It ends."""
    _C._pop_torch_function_mode()


def decorate(device, function):
    """The function with `device` as the default device."""
    if isinstance(function, type):
        raise TypeError("Cannot decorate a class with a device")

    @wraps(function)
    def wrapper(*args, **kwargs):
        with DeviceContext(device):
            return function(*args, **kwargs)

    return wrapper


device_decorator = decorate


def set_device(device):
    """A decorator that runs a function with another default device."""
    return lambda function: decorate(_C.device(device), function)


# The mode of `set_default_device`, below all others.
_default = None


def set_default_device(device):
    """The device where tensors are made unless another is given; None for the CPU."""
    global _default
    above = []
    while _C._len_torch_function_stack():
        mode = _C._pop_torch_function_mode()
        if mode is not _default:
            above.append(mode)
    _default = None if device is None else DeviceContext(device)
    for mode in ([] if _default is None else [_default]) + above[::-1]:
        _C._push_torch_function_mode(mode)


def get_default_device():
    """The device where tensors are made unless another is given."""
    for place in reversed(range(_C._len_torch_function_stack())):
        mode = _C._get_torch_function_mode_at(place)
        if isinstance(mode, DeviceContext):
            device = mode.device
            if device.index is not None or device.type in ("cpu", "meta"):
                return device
            return _C.empty(0, device=device).device
    return _C.device("cpu")
