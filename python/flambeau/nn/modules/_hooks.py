"""Hooks that apply to every module of the process."""
from collections import OrderedDict

from ...utils.hooks import RemovableHandle

_global_buffer_registration_hooks = OrderedDict()
_global_module_registration_hooks = OrderedDict()
_global_parameter_registration_hooks = OrderedDict()
_global_forward_pre_hooks = OrderedDict()
_global_forward_hooks = OrderedDict()
_global_forward_hooks_always_called = OrderedDict()
_global_forward_hooks_with_kwargs = OrderedDict()
_global_backward_pre_hooks = OrderedDict()
_global_backward_hooks = OrderedDict()

_call_time = (_global_forward_pre_hooks, _global_forward_hooks, _global_backward_pre_hooks, _global_backward_hooks)
_full_backward = None  # None: no global backward hook yet; else whether they are full ones


def _has_any_global_hook():
    return any(_call_time)


def add_hook(hooks, hook, *, flags=(), first=False):
    """Put a hook into a table, at its end or `first`, and into those of the tables `flags` that it is wanted in."""
    handle = RemovableHandle(hooks, extra_dict=[table for table, _ in flags] or None)
    for table, wanted in flags:
        if wanted:
            table[handle.id] = True
    hooks[handle.id] = hook
    if first:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_module_buffer_registration_hook(hook):
    """`hook(module, name, buffer)` runs whenever a buffer is registered; what it returns takes the buffer's place."""
    return add_hook(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook):
    """`hook(module, name, submodule)` runs whenever a submodule is registered."""
    return add_hook(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook):
    """`hook(module, name, param)` runs whenever a parameter is registered."""
    return add_hook(_global_parameter_registration_hooks, hook)


def register_module_forward_pre_hook(hook):
    """`hook(module, args)` runs before every module's forward."""
    return add_hook(_global_forward_pre_hooks, hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """`hook(module, args, output)` runs after every module's forward."""
    flags = [(_global_forward_hooks_with_kwargs, with_kwargs), (_global_forward_hooks_always_called, always_call)]
    return add_hook(_global_forward_hooks, hook, flags=flags)


def _set_kind(full):
    global _full_backward
    if _full_backward is not None and _full_backward is not full:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. "
            "Please use only one of them."
        )
    _full_backward = full


def register_module_backward_hook(hook):
    """`hook(module, grad_input, grad_output)` for every module; prefer the full form."""
    _set_kind(False)
    return add_hook(_global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook):
    """`hook(module, grad_output)` runs before every module's backward."""
    return add_hook(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook):
    """`hook(module, grad_input, grad_output)` runs after every module's backward."""
    _set_kind(True)
    return add_hook(_global_backward_hooks, hook)


def run_registration_hooks(hooks, module, name, value):
    """Show a newly registered value to the hooks; returns the value to register."""
    for hook in hooks.values():
        out = hook(module, name, value)
        if out is not None:
            value = out
    return value


def is_full():
    """Whether the global backward hooks are full ones."""
    return _full_backward is True
