"""What libraries ask PyTorch's core module for that is not an operator. The core's module hands its own names out first."""
import enum
from types import ModuleType

from . import _C

_jit_settings = {}


def _log_api_usage_once(*event):
    """Libraries report here what is used; nobody keeps count."""


def _log_api_usage_metadata(*event):
    """The same with details."""


def _get_tracing_state():
    """The TorchScript trace that runs: none."""
    return None


def _is_tracing():
    """Does `torch.jit.trace` record what is called?"""
    from .jit import is_tracing

    return is_tracing()


def _are_functorch_transforms_active():
    """Does a function transform run now?"""
    from .func._batched import levels

    return bool(levels)


def _get_accelerator(check_available=None):
    """The device that computes: the CPU."""
    return _C.device("cpu")


def _is_alias_of(a, b):
    """Do two tensors share memory?"""
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def _get_default_device():
    """The name of the device that new tensors are on."""
    from .utils._device import get_default_device

    return str(get_default_device())


def _is_torch_function_mode_enabled():
    """Is a mode of `__torch_function__` active?"""
    return _C._len_torch_function_stack() > 0


def _get_privateuse1_backend_name():
    """The name of a device of somebody else."""
    return "privateuseone"


def _cuda_isInBadFork():
    """Was a process forked after a CUDA device was used? No."""
    return False


class DispatchKey(enum.Enum):
    """Names of PyTorch's layers. Flambeau's own are numbered elsewhere."""

    (Undefined, CPU, CUDA, Meta, XPU, MPS, SparseCPU, QuantizedCPU, CompositeImplicitAutograd, CompositeExplicitAutograd,
     BackendSelect, Python, ADInplaceOrView, Autograd, AutogradCPU, AutogradCUDA, AutogradXPU, AutogradMeta, AutocastCPU,
     AutocastCUDA, AutocastXPU, AutocastMPS, FuncTorchBatched, Functionalize, PreDispatch) = range(25)  # fmt: skip


class DispatchKeySet:
    """Several of them."""

    def __init__(self, *keys):
        self.keys = frozenset(keys)

    def __or__(self, other):
        return DispatchKeySet(*(self.keys | other.keys))

    def __and__(self, other):
        return DispatchKeySet(*(self.keys & other.keys))

    def __sub__(self, other):
        return DispatchKeySet(*(self.keys - other.keys))

    def has(self, key):
        """Is a key among them?"""
        return key in self.keys

    def __repr__(self):
        return f"DispatchKeySet({', '.join(sorted(key.name for key in self.keys))})"


class _ExcludeDispatchKeyGuard:
    """Within it the layers are left out; of those that have a switch here, that is automatic casting."""

    def __init__(self, keys):
        names = {key.name for key in keys.keys}
        self.devices = [d for d in ("cpu",) if f"Autocast{d.upper()}" in names]

    def __enter__(self):
        from .amp import autocast

        self.inner = [autocast(d, enabled=False) for d in self.devices]
        for context in self.inner:
            context.__enter__()

    def __exit__(self, *error):
        for context in reversed(self.inner):
            context.__exit__(*error)


ExcludeDispatchKeyGuard = _ExcludeDispatchKeyGuard


class AcceleratorError(RuntimeError):
    """What a device reports."""


class OutOfMemoryError(RuntimeError):
    """No memory is left on a device."""


class FatalError(Exception):
    """What must not be caught and gone on from."""


class _Prefixed(ModuleType):
    """A part of the core's module: its functions are the core's, under names with a prefix."""

    def __init__(self, name, prefix, **own):
        super().__init__(f"flambeau._C.{name}")
        self._prefix = prefix
        self.__dict__.update(own)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        for full in (name, self._prefix + name):
            if full.startswith(self._prefix) and hasattr(_C, full):
                return getattr(_C, full)
        raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")


def _nn():
    from .nn.modules._convert import parse_to

    return _Prefixed("_nn", "", _parse_to=parse_to)


class Graph:
    """The graphs of PyTorch's TorchScript and ONNX exporter, which annotations name; none are made here."""


class Node:
    """A node of such a graph."""


class Value:
    """A value in such a graph."""


class Block:
    """A block of such a graph."""


class _ScriptType:
    """A type of TorchScript that has no parts, which annotations name."""

    annotation_str = ""

    @classmethod
    def get(cls):
        """The type."""
        return cls()

    def __eq__(self, other):
        return type(other) is type(self)

    def __hash__(self):
        return hash(type(self))

    def __repr__(self):
        return self.annotation_str

    def kind(self):
        return type(self).__name__


class TensorType(_ScriptType):
    """TorchScript's type of tensors."""

    annotation_str = "Tensor"

    @classmethod
    def getInferred(cls):
        """The type of any tensor."""
        return cls()

    @classmethod
    def create_from_tensor(cls, t):
        """The type of a given tensor."""
        return cls()


class DeviceObjType(_ScriptType):
    """TorchScript's type of devices."""

    annotation_str = "Device"


def _functorch():
    from .func import _batched, _vmap

    def get_unwrapped(tensor):
        return tensor._value if _batched.is_batched(tensor) else tensor

    def maybe_get_bdim(tensor):
        return 0 if _batched.is_batched(tensor) else -1

    def maybe_get_level(tensor):
        return tensor._level if _batched.is_batched(tensor) else -1

    return _Prefixed("_functorch", "_functorch_", is_batchedtensor=_batched.is_batched,
                     is_legacy_batchedtensor=lambda tensor: False, get_unwrapped=get_unwrapped,
                     maybe_get_bdim=maybe_get_bdim, maybe_get_level=maybe_get_level,
                     _add_batch_dim=_vmap._add_batch_dim, _remove_batch_dim=_vmap._remove_batch_dim)  # fmt: skip


_PARTS = {
    "_nn": _nn,
    "_functorch": _functorch,
    "_linalg": lambda: _Prefixed("_linalg", "linalg_"),
    "_fft": lambda: _Prefixed("_fft", "fft_"),
    "_special": lambda: _Prefixed("_special", "special_"),
    "_sparse": lambda: _Prefixed("_sparse", "sparse_"),
    "_TensorMeta": lambda: type(_C.Tensor),
}
_JIT_SWITCHES = ("_jit_set_", "_jit_override_")


def _switch(name):
    """A setting of TorchScript's compiler: it is kept, and the one before is returned."""

    def switch(value):
        previous = _jit_settings.get(name, False)
        _jit_settings[name] = value
        return previous

    switch.__name__ = name
    return switch


def find(name):
    """What the core's module is to have under a name; None if nothing."""
    if name in _PARTS:
        return _PARTS[name]()
    if name.startswith(_JIT_SWITCHES):
        return _switch(name)
    if name in ("_jit_can_fuse_on_cpu", "_jit_can_fuse_on_gpu", "_jit_texpr_fuser_enabled", "_jit_nvfuser_enabled"):
        key = name.replace("_jit_can", "_jit_override_can") if "_can_" in name else name.replace("_jit_", "_jit_set_")
        return lambda: _jit_settings.get(key, False)
    found = globals().get(name)
    return found if getattr(found, "__module__", None) == __name__ and name != "find" else None
