"""`Module`: a tree of parameters, buffers and submodules that can be called."""
import warnings
from collections import OrderedDict
from types import FunctionType
from typing import Any, Dict, TypeVar

from ... import _C
from ..._C import Tensor
from ..._names import typename
from ...utils.hooks import BackwardHook
from ..parameter import Buffer, Parameter
from . import _hooks
from ._hooks import (  # noqa: F401
    add_hook,
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_buffer_registration_hooks,
    _global_forward_hooks,
    _global_forward_hooks_always_called,
    _global_forward_hooks_with_kwargs,
    _global_forward_pre_hooks,
    _global_module_registration_hooks,
    _global_parameter_registration_hooks,
    _has_any_global_hook,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
    run_registration_hooks,
)
from ._convert import convert_parameter, parse_to
from ._state import _EXTRA_STATE_KEY_SUFFIX, StateMixin, _IncompatibleKeys, _WrappedHook  # noqa: F401

__all__ = [
    "register_module_forward_pre_hook",
    "register_module_forward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_backward_hook",
    "register_module_full_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
    "Module",
]


def _addindent(text, spaces):
    first, *rest = text.split("\n")
    return "\n".join([first, *(" " * spaces + line for line in rest)])


def _forward_unimplemented(self, *input) -> None:
    """What the module computes; every subclass defines it."""
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


def _check_name(kind, name, owner, registered, *, show=False):
    if not isinstance(name, str):
        raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
    if "." in name:
        raise KeyError(f'{kind} name can\'t contain "."' + (f", got: {name}" if show else ""))
    if name == "":
        raise KeyError(f'{kind} name can\'t be empty string ""')
    if name not in registered and hasattr(owner, name):
        raise KeyError(f"attribute '{name}' already exists")


def _is_own(module, name):
    return getattr(type(module), name) is _OWN[name] and name not in module.__dict__


def _members(module, table, named, recurse):
    """What the method `named` yields, without the names."""
    if not _is_own(module, named) or not _is_own(module, "_named_members"):
        for _, value in getattr(module, named)(recurse=recurse):
            yield value
        return
    seen = set()
    for _, owner in module.named_modules(prefix="", remove_duplicate=True) if recurse else [("", module)]:
        for value in getattr(owner, table).values():
            if value is not None and value not in seen:
                seen.add(value)
                yield value


T_destination = TypeVar("T_destination", bound=Dict[str, Any])


class Module(StateMixin):
    """The base of all layers and models.

    Parameters, buffers and modules assigned as attributes are registered; calling the module runs `forward`."""

    dump_patches = False
    T_destination = T_destination
    training: bool
    _version = 1
    call_super_init = False
    _compiled_call_impl = None

    def __init__(self, *args, **kwargs):
        if not self.call_super_init:
            if kwargs:
                raise TypeError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
                )
            if args:
                raise TypeError(
                    f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
                )
        # Straight into the dictionary: __setattr__ would look at every one of these.
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _non_persistent_buffers_set=set(),
            _backward_pre_hooks=OrderedDict(),
            _backward_hooks=OrderedDict(),
            _is_full_backward_hook=None,
            _forward_hooks=OrderedDict(),
            _forward_hooks_with_kwargs=OrderedDict(),
            _forward_hooks_always_called=OrderedDict(),
            _forward_pre_hooks=OrderedDict(),
            _forward_pre_hooks_with_kwargs=OrderedDict(),
            _state_dict_hooks=OrderedDict(),
            _state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_post_hooks=OrderedDict(),
            _modules={},
        )
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    forward = _forward_unimplemented

    # ---- registration ----

    def register_buffer(self, name, tensor, persistent=True):
        """Add a tensor that is state but not a parameter; a persistent one is part of the state_dict."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        _check_name("buffer", name, self, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = run_registration_hooks(_global_buffer_registration_hooks, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name, param):
        """Add a parameter, or None to hold its place."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        _check_name("parameter", name, self, self._parameters)
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)"
            )
        if param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To "
                f"express '{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        self._parameters[name] = run_registration_hooks(_global_parameter_registration_hooks, self, name, param)

    def add_module(self, name, module):
        """Add a submodule under a name."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{typename(module)} is not a Module subclass")
        _check_name("module", name, self, self._modules, show=True)
        self._modules[name] = run_registration_hooks(_global_module_registration_hooks, self, name, module)

    def register_module(self, name, module):
        """Alias of `add_module`."""
        self.add_module(name, module)

    def get_submodule(self, target):
        """The submodule at a dotted path; "" is the module itself."""
        module = self
        for part in target.split(".") if target else ():
            if not hasattr(module, part):
                raise AttributeError(f"{module._get_name()} has no attribute `{part}`")
            module = getattr(module, part)
            if not isinstance(module, Module):
                raise AttributeError(f"`{part}` is not an nn.Module")
        return module

    def set_submodule(self, target, module, strict=False):
        """Put a module at a dotted path; with `strict` only in place of an existing one."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def _get_member(self, target):
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        return owner, name, getattr(owner, name)

    def get_parameter(self, target):
        """The parameter at a dotted path."""
        _, name, value = self._get_member(target)
        if not isinstance(value, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return value

    def get_buffer(self, target):
        """The buffer at a dotted path."""
        owner, name, value = self._get_member(target)
        if name not in owner._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return value

    # ---- attributes ----

    def __getattr__(self, name):
        fields = self.__dict__
        # (Written out: this is called in every step of most models.)
        if "_parameters" in fields and name in (table := fields["_parameters"]):
            return table[name]
        if "_modules" in fields and name in (table := fields["_modules"]):
            return table[name]
        if "_buffers" in fields and name in (table := fields["_buffers"]):
            return table[name]
        if "_is_scripted" in fields:  # what was given to torch.jit.script or trace has the members of scripted modules
            from ...jit import ScriptModule

            if name in ScriptModule.__dict__:
                return ScriptModule.__dict__[name].__get__(self, type(self))
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _forget(self, name, *tables):
        for table in tables:
            table = self.__dict__.get(table)
            if table is None:
                continue
            if isinstance(table, dict):
                table.pop(name, None)
            else:
                table.discard(name)

    def __setattr__(self, name, value):
        fields = self.__dict__
        params = fields.get("_parameters")
        if params is not None and not isinstance(value, (Tensor, Module)):
            # Most are plain attributes.
            if name not in params and name not in fields.get("_modules", ()) and name not in fields.get("_buffers", ()):
                super().__setattr__(name, value)
                return
        if isinstance(value, Parameter):
            if params is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            fields.pop(name, None)
            self._forget(name, "_buffers", "_modules", "_non_persistent_buffers_set")
            self.register_parameter(name, value)
            return
        if params is not None and name in params:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
            return
        modules = fields.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            fields.pop(name, None)
            self._forget(name, "_parameters", "_buffers", "_non_persistent_buffers_set")
            modules[name] = run_registration_hooks(_global_module_registration_hooks, self, name, value)
            return
        if modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' (torch.nn.Module or None expected)"
                )
            modules[name] = run_registration_hooks(_global_module_registration_hooks, self, name, value)
            return
        buffers = fields.get("_buffers")
        if isinstance(value, Buffer) or (buffers is not None and name in buffers):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{typename(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)"
                )
            if buffers is None:
                raise AttributeError("cannot assign buffer before Module.__init__() call")
            if isinstance(value, Buffer):
                persistent = value.persistent
            else:
                persistent = name not in self._non_persistent_buffers_set
            if name not in buffers:
                fields.pop(name, None)
                self._forget(name, "_parameters", "_modules")
                self.register_buffer(name, value, persistent)
            else:
                buffers[name] = run_registration_hooks(_global_buffer_registration_hooks, self, name, value)
                (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)
            return
        super().__setattr__(name, value)

    def __delattr__(self, name):
        tables = self._parameters, self._buffers, self._modules
        table = next((table for table in tables if name in table), None)
        if table is None:
            super().__delattr__(name)
        else:
            del table[name]
            self._non_persistent_buffers_set.discard(name)

    def __setstate__(self, state):
        self.__dict__.update(state)
        for name, empty in (
            ("_forward_pre_hooks", OrderedDict), ("_forward_pre_hooks_with_kwargs", OrderedDict),
            ("_forward_hooks_with_kwargs", OrderedDict), ("_forward_hooks_always_called", OrderedDict),
            ("_state_dict_hooks", OrderedDict), ("_state_dict_pre_hooks", OrderedDict),
            ("_load_state_dict_pre_hooks", OrderedDict), ("_load_state_dict_post_hooks", OrderedDict),
            ("_non_persistent_buffers_set", set), ("_backward_pre_hooks", OrderedDict),
        ):
            self.__dict__.setdefault(name, empty())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    def __getstate__(self):
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __dir__(self):
        keys = dir(type(self)) + list(self.__dict__) + list(self._parameters) + list(self._modules) + list(self._buffers)
        return sorted(k for k in keys if not k[0].isdigit())

    # ---- conversion ----

    def apply(self, fn):
        """Call `fn` on every submodule, then on the module itself."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn, recurse=True):
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, param in self._parameters.items():
            if param is not None:
                convert_parameter(self, name, param, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def _apply_floating(self, dtype):
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self):
        """Floating-point parameters and buffers to float32."""
        return self._apply_floating(_C.float32)

    def double(self):
        """Floating-point parameters and buffers to float64."""
        return self._apply_floating(_C.float64)

    def half(self):
        """Floating-point parameters and buffers to float16."""
        return self._apply_floating(_C.float16)

    def bfloat16(self):
        """Floating-point parameters and buffers to bfloat16."""
        return self._apply_floating(_C.bfloat16)

    def type(self, dst_type):
        """All parameters and buffers to `dst_type`."""
        return self._apply(lambda t: t.type(dst_type))

    def cpu(self):
        """All parameters and buffers to the CPU."""
        return self._apply(lambda t: t.cpu())

    def _move(self, kind, device):
        target = kind if device is None else f"{kind}:{device}" if isinstance(device, int) else device
        return self._apply(lambda t: t.to(target))

    def cuda(self, device=None):
        """All parameters and buffers to a CUDA device."""
        return self._apply(lambda t: t.cuda(device))

    def xpu(self, device=None):
        """All parameters and buffers to an XPU."""
        return self._move("xpu", device)

    def ipu(self, device=None):
        """All parameters and buffers to an IPU."""
        return self._move("ipu", device)

    def mtia(self, device=None):
        """All parameters and buffers to an MTIA device."""
        return self._move("mtia", device)

    def to_empty(self, *, device, recurse=True):
        """Move to a device without copying: contents are uninitialized."""
        return self._apply(lambda t: _C.empty_like(t, device=device), recurse=recurse)

    def to(self, *args, **kwargs):
        """`to(device)`, `to(dtype)`, `to(tensor)`, `to(memory_format=...)`: convert parameters and buffers in place."""
        device, dtype, non_blocking, memory_format = parse_to(*args, **kwargs)
        if dtype is not None:
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError(
                    f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
                )
            if dtype.is_complex:
                warnings.warn(
                    "Complex modules are a new feature under active development whose design may change, and some modules "
                    "might not work as expected when using complex tensors as parameters or buffers. Please file an issue "
                    "at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml if a complex module does "
                    "not work as expected.",
                    stacklevel=2,
                )

        def convert(t):
            kind = dtype if t.is_floating_point() or t.is_complex() else None
            if memory_format is not None and t.dim() in (4, 5):
                return t.to(device, kind, non_blocking, memory_format=memory_format)
            try:
                return t.to(device, kind, non_blocking)
            except NotImplementedError as e:
                if str(e) == "Cannot copy out of meta tensor; no data!":
                    raise NotImplementedError(
                        f"{e} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving module "
                        "from meta to a different device."
                    ) from None
                raise

        return self._apply(convert)

    def share_memory(self):
        """Move parameters and buffers to memory that other processes can share."""
        return self._apply(lambda t: t.share_memory_())

    def train(self, mode=True):
        """Switch this module and all below to training (or evaluation) mode."""
        if mode is not True and mode is not False:
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for _, child in self.named_children():
            child.train(mode)
        return self

    def eval(self):
        """Evaluation mode: dropout off, running statistics used."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Whether autograd records operations on the parameters."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Forget (or zero) the gradients of all parameters."""
        if getattr(self, "_is_replica", False):
            warnings.warn(
                "Calling .zero_grad() from a module created with nn.DataParallel() has no effect. The parameters are copied "
                "(in a differentiable manner) from the original module. This means they are not leaf nodes in autograd and "
                "so don't accumulate gradients. If you need gradients in your forward method, consider using autograd.grad "
                "instead.",
                stacklevel=2,
            )
        for p in self.parameters():
            grad = p.grad
            if set_to_none:
                p.grad = None
            elif grad is not None:
                if grad.grad_fn is None:
                    grad.requires_grad_(False)
                else:
                    grad.detach_()
                grad.zero_()

    # ---- calling and its hooks ----

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """`hook(module, args)` (or `(module, args, kwargs)`) runs before forward and may replace its arguments."""
        flags = [(self._forward_pre_hooks_with_kwargs, with_kwargs)]
        return add_hook(self._forward_pre_hooks, hook, flags=flags, first=prepend)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """`hook(module, args, output)` runs after forward and may replace the output."""
        flags = [(self._forward_hooks_with_kwargs, with_kwargs), (self._forward_hooks_always_called, always_call)]
        return add_hook(self._forward_hooks, hook, flags=flags, first=prepend)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """`hook(module, grad_output)` runs before the module's backward and may replace the gradient."""
        return add_hook(self._backward_pre_hooks, hook, first=prepend)

    def _set_backward_kind(self, full):
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. "
                "Please use only one of them."
            )
        self._is_full_backward_hook = full

    def register_backward_hook(self, hook):
        """The old form of backward hook: sees the last operation only. Prefer `register_full_backward_hook`."""
        self._set_backward_kind(False)
        return add_hook(self._backward_hooks, hook)

    def register_full_backward_hook(self, hook, prepend=False):
        """`hook(module, grad_input, grad_output)` runs after the module's backward and may replace `grad_input`."""
        self._set_backward_kind(True)
        return add_hook(self._backward_hooks, hook, first=prepend)

    def _get_backward_hooks(self):
        full, other = [], []
        (full if _hooks.is_full() else other).extend(_global_backward_hooks.values())
        (full if self._is_full_backward_hook is True else other).extend(self._backward_hooks.values())
        return full, other

    def _call_impl(self, *args, **kwargs):
        if not (
            self._backward_hooks or self._backward_pre_hooks or self._forward_hooks or self._forward_pre_hooks
            or _global_backward_pre_hooks or _global_backward_hooks or _global_forward_hooks or _global_forward_pre_hooks
        ):
            return self.forward(*args, **kwargs)
        return self._call_with_hooks(args, kwargs)

    _wrapped_call_impl = _call_impl
    __call__ = _call_impl

    def _run_pre_hooks(self, args, kwargs):
        for key, hook in (*_global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()):
            if key in self._forward_pre_hooks_with_kwargs:
                out = hook(self, args, kwargs)
                if out is not None:
                    if not (isinstance(out, tuple) and len(out) == 2):
                        raise RuntimeError(
                            f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {out}."
                        )
                    args, kwargs = out
            else:
                out = hook(self, args)
                if out is not None:
                    args = out if isinstance(out, tuple) else (out,)
        return args, kwargs

    def _forward_hook_calls(self):
        for key, hook in (*_global_forward_hooks.items(), *self._forward_hooks.items()):
            with_kwargs = key in self._forward_hooks_with_kwargs or key in _global_forward_hooks_with_kwargs
            always = key in self._forward_hooks_always_called or key in _global_forward_hooks_always_called
            yield key, hook, with_kwargs, always

    def _call_with_hooks(self, args, kwargs):
        result = None
        called = set()
        try:
            full, other = self._get_backward_hooks()
            pre = [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]
            args, kwargs = self._run_pre_hooks(args, kwargs)
            backward = BackwardHook(self, full, pre) if full or pre else None
            if backward is not None:
                args = backward.setup_input_hook(args)
            result = self.forward(*args, **kwargs)
            for key, hook, with_kwargs, always in self._forward_hook_calls():
                if always:
                    called.add(key)
                out = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                if out is not None:
                    result = out
            if backward is not None:
                if not isinstance(result, (Tensor, tuple)):
                    warnings.warn(
                        "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but "
                        f"received {type(result)}",
                        stacklevel=3,
                    )
                result = backward.setup_output_hook(result)
            if other:
                self._attach_old_hooks(other, args, result)
            return result
        except Exception:
            for key, hook, with_kwargs, always in self._forward_hook_calls():
                if not always or key in called:
                    continue
                try:
                    out = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                    if out is not None:
                        result = out
                except Exception as e:
                    scope = "global module" if key in _global_forward_hooks else "module"
                    warnings.warn(
                        f"{scope} forward hook with ``always_call=True`` raised an exception that was silenced as another "
                        f"error was raised in forward: {e}",
                        stacklevel=3,
                    )
            raise

    def _attach_old_hooks(self, hooks, args, result):
        value = result
        while not isinstance(value, Tensor):
            if isinstance(value, dict):
                value = next(v for v in value.values() if isinstance(v, Tensor))
            else:
                value = value[0]
        node = value.grad_fn
        if node is not None:
            for hook in hooks:
                node.register_hook(_WrappedHook(hook, self))
            self._maybe_warn_non_full_backward_hook(args, result, node)

    def _maybe_warn_non_full_backward_hook(self, inputs, result, grad_fn):
        def warn(what, missing="grad_output"):
            warnings.warn(
                f"Using {what} is deprecated and will be removed in future versions. This hook will be missing some "
                f"{missing}. Please use register_full_backward_hook to get the documented behavior.",
                FutureWarning,
                stacklevel=4,
            )

        def tensors(values):
            values = (values,) if isinstance(values, Tensor) else values
            return values if isinstance(values, tuple) and all(isinstance(v, Tensor) for v in values) else None

        outs = tensors(result)
        if outs is None:
            warn("non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors",
                 "of the grad_output")
            return
        ins = tensors(inputs)
        if ins is None:
            warn("non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of Tensors",
                 "of the grad_input")
            return
        out_nodes = {r.grad_fn for r in outs} - {None}
        if len(out_nodes) > 1 or (out_nodes and grad_fn not in out_nodes):
            warn("a non-full backward hook when outputs are generated by different autograd Nodes")
            return
        if {i.grad_fn for i in ins} - {None} != {n[0] for n in grad_fn.next_functions}:
            warn("a non-full backward hook when the forward contains multiple autograd Nodes", "grad_input")

    def compile(self, *args, **kwargs):
        """Accepted for compatibility: modules run eagerly."""

    # ---- walking the tree ----

    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            start = path and path + "."
            for name, value in get_members_fn(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield start + name, value

    def parameters(self, recurse=True):
        """All parameters, each once."""
        return _members(self, "_parameters", "named_parameters", recurse)

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """(dotted name, parameter) pairs."""
        return self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        """All buffers, each once."""
        return _members(self, "_buffers", "named_buffers", recurse)

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """(dotted name, buffer) pairs."""
        return self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self):
        """The direct submodules, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self):
        """(name, direct submodule) pairs, each module once."""
        met = {None}
        for name, child in self._modules.items():
            if child not in met:
                met.add(child)
                yield name, child

    def modules(self, remove_duplicate=True):
        """The module and all below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """(dotted name, module) pairs for the module and all below it."""
        met = set() if memo is None else memo
        if self in met:
            return
        if remove_duplicate:
            met.add(self)
        yield prefix, self
        # No recursion as far as modules walk as this one does: each would pass through as many generators as it lies deep.
        walk = _OWN["named_modules"]
        pending = [(prefix and prefix + ".", iter(self._modules.items()))]
        while pending:
            start, children = pending[-1]
            for name, child in children:
                if child is None:
                    continue
                path = start + name
                if not remove_duplicate or type(child).named_modules is not walk or "named_modules" in child.__dict__:
                    yield from child.named_modules(met, path, remove_duplicate)
                elif child not in met:
                    met.add(child)
                    yield path, child
                    if child._modules:
                        pending.append((path + ".", iter(child._modules.items())))
                        break
            else:
                pending.pop()

    # ---- text ----

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        """What to show between the parentheses."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        own = extra.split("\n") if extra else []
        children = [f"({name}): {_addindent(repr(module), 2)}" for name, module in self._modules.items()]
        head = self._get_name() + "("
        if len(own) == 1 and not children:
            return f"{head}{own[0]})"
        lines = own + children
        return head + ("\n  " + "\n  ".join(lines) + "\n" if lines else "") + ")"

    def _replicate_for_data_parallel(self):
        replica = type(self).__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        replica.__dict__.update(
            _parameters={}, _buffers=self._buffers.copy(), _modules=self._modules.copy(), _is_replica=True
        )
        return replica


# What modules do unless a class, or a module, has a method of its own for it.
_OWN = {name: getattr(Module, name) for name in ("named_modules", "named_parameters", "named_buffers", "_named_members")}

# Users meet these as the module's own.
for _method in vars(StateMixin).values():
    if isinstance(_method, FunctionType):
        _method.__qualname__ = f"Module.{_method.__name__}"
del _method
