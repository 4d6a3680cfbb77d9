"""The state of the default random-number generator."""
from __future__ import annotations

import contextlib
import warnings
from collections.abc import Generator

import flambeau as _fl

__all__ = ["set_rng_state", "get_rng_state", "manual_seed", "seed", "initial_seed", "fork_rng",
           "thread_safe_generator"]


def __getattr__(name: str):
    if name == "default_generator":
        return _fl.default_generator
    raise AttributeError(f"module 'torch.random' has no attribute '{name}'")


def _accelerator(kind: str):
    """The module of a kind of device that is there, or None."""
    try:
        module = getattr(_fl, kind, None)
        return module if module is not None and module.is_available() else None
    except (ImportError, AttributeError):
        return None


def set_rng_state(new_state) -> None:
    """Set the state of the CPU generator (a byte tensor of `get_rng_state`)."""
    _fl.default_generator.set_state(new_state)


def get_rng_state():
    """The state of the CPU generator as a byte tensor."""
    return _fl.default_generator.get_state()


def manual_seed(seed):
    """Seed the generators of all devices; returns the CPU's."""
    seed = int(seed)
    for kind in ("cuda", "mps", "xpu"):
        module = _accelerator(kind)
        if module is not None:
            getattr(module, "manual_seed_all", module.manual_seed)(seed)
    return _fl.default_generator.manual_seed(seed)


def seed() -> int:
    """Seed the generators with a number that is not foreseeable; returns it."""
    value = _fl.default_generator.seed()
    module = _accelerator("cuda")
    if module is not None:
        module.manual_seed_all(value)
    return value


def initial_seed() -> int:
    """The seed of the CPU generator."""
    return _fl.default_generator.initial_seed()


def thread_safe_generator():
    """The generator of the present worker thread, where there is one."""
    from .utils.data import get_worker_info

    info = get_worker_info()
    return info.rng.torch_generator if info is not None and info.rng is not None else None


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type=None) -> Generator:
    """A block whose random numbers leave the states outside as they were."""
    device_type = "cuda" if device_type is None else _fl.device(device_type).type
    if device_type == "meta" or not enabled:
        yield
        return
    module = _accelerator(device_type) if device_type != "cpu" else None
    devices = None if devices is None else list(devices)
    states = []
    if module is not None:
        if devices is None:
            count = module.device_count()
            if count > 1:
                kind = device_type.upper()
                warnings.warn(f"{kind} reports that you have {count} available devices, and you have used {_caller} without "
                              "explicitly specifying which devices are being used. For safety, we initialize *every* "
                              f"{kind} device by default, which can be quite slow if you have a lot of {kind}s.",
                              stacklevel=2)
            devices = range(count)
        states = [(device, module.get_rng_state(device)) for device in devices]
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)
        for device, saved in states:
            module.set_rng_state(saved, device)
