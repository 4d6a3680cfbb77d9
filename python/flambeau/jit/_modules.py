"""`ScriptModule` and the modules that archives hold."""
from __future__ import annotations

from typing import Any

import flambeau as _fl

from ..nn import Module, Parameter
from ._calls import ScriptHook, ScriptMethod, no_graph
from ._objects import scripted, to_python, unpicklable


class _Kind(type):
    """Modules that `script` and `trace` were given count as instances too."""

    def __instancecheck__(cls, obj) -> bool:
        if type.__instancecheck__(cls, obj):
            return True
        kind = getattr(obj, "__dict__", {}).get("_is_scripted")
        return isinstance(kind, type) and issubclass(kind, cls)


class ScriptModule(Module, metaclass=_Kind):
    """A scripted module. One that a program derives from it runs eagerly."""

    def __setattr__(self, name: str, value) -> None:
        from . import Attribute

        super().__setattr__(name, value.value if isinstance(value, Attribute) else value)

    def define(self, src):
        """Methods from source, run eagerly."""
        from . import CompilationUnit

        for name, function in CompilationUnit(src)._functions.items():
            object.__setattr__(self, name, function.original.__get__(self))

    @property
    def original_name(self) -> str:
        return type(self).__name__

    @property
    def code(self) -> str:
        import inspect

        return inspect.getsource(type(self).forward)

    @property
    def graph(self):
        raise no_graph()

    inlined_graph = graph

    def graph_for(self, *args, **kwargs):
        raise no_graph()

    def get_debug_state(self, *args, **kwargs):
        raise no_graph()

    @property
    def code_with_constants(self):
        return self.code, {}

    def forward_magic_method(self, method_name, *args, **kwargs):
        """Calls a method with two underscores."""
        return getattr(self, method_name)(*args, **kwargs)

    def save(self, f, **kwargs):
        """Writes an archive with the tensors as they are now."""
        from . import _save

        _save(self, f, **kwargs)

    def save_to_buffer(self, *args, **kwargs) -> bytes:
        """The archive that `save` writes; takes its `_extra_files`."""
        import io

        from . import _save

        file = io.BytesIO()
        _save(self, file, *args, **kwargs)
        return file.getvalue()


def _unsupported(name: str):
    def refuse(self, *args, **kwargs):
        raise RuntimeError(f"{name} is not supported on ScriptModules")

    refuse.__name__ = name
    return refuse


@scripted
class RecursiveScriptModule(ScriptModule):
    """A module of an archive: its tensors and submodules as any module's, its methods TorchScript."""

    def __init__(self, cpp_module) -> None:
        super().__init__()
        self.__dict__.update(_script_class=cpp_module, _script_values={}, _initializing=False)

    def _attach_hooks(self) -> None:
        """Make the hooks of the class those of the module."""
        cls = self._script_class
        for attribute in ("_forward_pre_hooks", "_forward_hooks"):
            hooks = self.__dict__[attribute]
            for place, name in enumerate(cls.lists.get(f"_{attribute}__", ())):
                hooks[place] = ScriptHook(cls, name)

    # ---- attributes ----

    @property
    def forward(self):  # type: ignore[override]
        """The method `forward`; there is none in modules that only hold others."""
        cls = self._script_class
        if "forward" not in cls.methods:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute 'forward'")
        return ScriptMethod(self, cls, "forward")

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            if name in fields[table]:
                return fields[table][name]
        if name in fields["_script_values"]:
            return to_python(fields["_script_values"][name])
        if name == "forward":
            raise AttributeError(f"'{type(self).__name__}' object has no attribute 'forward'")
        return fields["_script_class"].member(self, name)

    def __setattr__(self, name: str, value) -> None:
        fields = self.__dict__
        cls = fields.get("_script_class")
        if cls is None:
            super().__setattr__(name, value)
        elif name in fields["_modules"] or isinstance(value, Module):
            if not isinstance(value, RecursiveScriptModule):
                raise RuntimeError("Cannot re-assign modules in a ScriptModule with non-scripted module, tried to replace "
                                   f"existing module '{name}': {value}")
            fields["_modules"][name] = value
        elif name in fields["_parameters"] or name in fields["_buffers"]:
            if value is not None and not isinstance(value, _fl.Tensor):
                raise RuntimeError(f"Could not cast attribute '{name}' to type Tensor: Unable to cast {value!r} to Tensor")
            fields["_parameters" if name in fields["_parameters"] else "_buffers"][name] = value
        elif name in cls.constants:
            raise RuntimeError(f"Can't set constant '{name}' which has value:{cls.constants[name]}")
        elif name in fields["_script_values"]:
            fields["_script_values"][name] = cls.converted(name, value)
        elif f"__{name}_setter" in cls.methods:
            cls.bound(self, f"__{name}_setter")(value)
        elif isinstance(value, Parameter):
            self.register_parameter(name, value)
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if name not in self.__dict__:
            raise RuntimeError("cannot delete methods or parameters of a script module")
        del self.__dict__[name]

    def __dir__(self):
        cls = self._script_class
        return sorted({*super().__dir__(), *self._script_values, *cls.constants, *cls.methods} - cls.hooks)

    def register_parameter(self, name, param):
        raise RuntimeError(f"Can't add a new parameter after ScriptModule construction. Tried to add '{name}")

    def register_buffer(self, name, tensor, persistent=True):
        raise RuntimeError(f"Can't add a new parameter after ScriptModule construction. Tried to add '{name}")

    def add_module(self, name, module):
        setattr(self, name, module)

    def _apply(self, fn, recurse=True):
        if recurse:
            for module in self._modules.values():
                module._apply(fn)  # type: ignore[union-attr]
        for name, tensor in self._parameters.items():
            if tensor is None:
                continue
            with _fl.no_grad():
                applied = fn(tensor)
            grad = tensor.grad
            if applied is not tensor:
                try:
                    tensor.data = applied
                except RuntimeError:  # another kind of tensor: it has to be a new one
                    tensor = self._parameters[name] = applied.detach().requires_grad_(tensor.requires_grad)
            if grad is not None:
                with _fl.no_grad():
                    tensor.grad = fn(grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    # ---- what is shown ----

    @property
    def original_name(self) -> str:
        return self._script_class.short_name

    def extra_repr(self) -> str:
        return "original_name=" + self.original_name

    @property
    def code(self) -> str:
        return self.forward.code

    @property
    def code_with_constants(self):
        return self.forward.code_with_constants

    def forward_magic_method(self, method_name, *args, **kwargs):
        """Calls a method with two underscores, if the script has it."""
        cls = self._script_class
        if method_name not in cls.methods:
            raise NotImplementedError
        return cls.bound(self, method_name)(*args, **kwargs)

    def __len__(self):
        return self.forward_magic_method("__len__")

    def __contains__(self, key):
        return self.forward_magic_method("__contains__", key)

    def __iter__(self):
        if "__len__" in self._script_class.methods and "__iter__" not in self._script_class.methods:
            return iter(self._modules.values())  # a container of modules
        return self.forward_magic_method("__iter__")

    def __getitem__(self, idx):
        if isinstance(idx, int) and "__getitem__" not in self._script_class.methods and self._modules:
            return list(self._modules.values())[idx]
        if idx in self._modules:
            return self._modules[idx]
        return self.forward_magic_method("__getitem__", idx)

    def __bool__(self) -> bool:
        return True

    # ---- copies ----

    def _clone(self, copy):
        new = type(self).__new__(type(self))
        new.__dict__.update((name, value if name == "_script_class" else copy(value))
                            for name, value in self.__dict__.items())
        return new

    def __copy__(self):
        return self._clone(lambda value: value.copy() if isinstance(value, (dict, set)) else value)

    def __deepcopy__(self, memo):
        from copy import deepcopy

        new = memo[id(self)] = type(self).__new__(type(self))
        new.__dict__.update((name, value if name in ("_script_class", "_forward_hooks", "_forward_pre_hooks")
                             else deepcopy(value, memo)) for name, value in self.__dict__.items())
        return new

    def __reduce_ex__(self, protocol):
        raise unpicklable(self._script_class)


for _name in ("bfloat16 compile get_buffer get_parameter get_submodule ipu mtia register_backward_hook "
              "register_forward_hook register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook "
              "register_load_state_dict_post_hook register_load_state_dict_pre_hook register_state_dict_post_hook "
              "register_state_dict_pre_hook requires_grad_ set_submodule to_empty xpu").split():
    setattr(RecursiveScriptModule, _name, _unsupported(_name))


class TracedModule(ScriptModule):
    """A traced module."""


class TopLevelTracedModule(TracedModule):
    """A traced module as `trace` gives it."""
