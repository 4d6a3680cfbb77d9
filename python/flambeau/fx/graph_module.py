"""Modules made of graphs."""
import copy
import itertools
import linecache
import os

from .. import _C
from ..nn import Module, Parameter
from .graph import Graph

__all__ = ["reduce_graph_module", "reduce_package_graph_module", "GraphModule"]

_numbers = itertools.count()
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


def _forward_from_src(src, scope):
    """The function `forward` of a source, whose lines tracebacks can show."""
    filename = f"<eval_with_key>.{next(_numbers)}"
    scope = dict(scope)
    exec(compile(src, filename, "exec"), scope)
    linecache.cache[filename] = (len(src), None, src.splitlines(keepends=True), filename)
    return scope["forward"]


def _find(module, path):
    for part in path.split("."):
        if not hasattr(module, part):
            return None, False
        module = getattr(module, part)
    return module, True


def _copy_attr(from_module, to_module, target):
    """Gives one module what another has under a path."""
    value, found = _find(from_module, target)
    if found:
        _assign_attr(value, to_module, target)


def _assign_attr(from_obj, to_module, target):
    """Puts a value under a path, making the modules on the way; tensors become buffers."""
    *prefix, name = target.split(".")
    for part in prefix:
        child = getattr(to_module, part, None)
        if child is None:
            child = Module()
            setattr(to_module, part, child)
        to_module = child
    if isinstance(from_obj, _C.Tensor) and not isinstance(from_obj, Parameter):
        to_module.register_buffer(name, from_obj)
    else:
        setattr(to_module, name, from_obj)


class _CodeOnlyModule(Module):
    """A module that has attributes and no graph yet."""

    def __init__(self, body):
        super().__init__()
        self.__dict__ = body


class GraphModule(Module):
    """A module whose forward is a graph's code. `root` is the module, or the dictionary, that has what the graph names."""

    def __new__(cls, *args, **kwargs):
        for base in cls.__mro__:
            if base.__qualname__ != "GraphModuleImpl":
                cls = base
                break
        implementation = type("GraphModuleImpl", (cls,), {"__module__": cls.__module__})
        return super().__new__(implementation)

    def __init__(self, root, graph, class_name="GraphModule"):
        super().__init__()
        if not isinstance(root, (Module, dict)):
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.__class__.__name__ = class_name
        paths = [n.target for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            for path in paths:
                _copy_attr(root, self, path)
        elif isinstance(root, dict):
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module") and node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not provided in ``root``!"
                    )
            for path in sorted(set(paths), key=lambda path: path.count(".")):
                _assign_attr(root[path], self, path)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        self._tracer_cls = None
        if graph._tracer_cls and "<locals>" not in graph._tracer_cls.__qualname__:
            self._tracer_cls = graph._tracer_cls
        self.meta = {}
        if isinstance(getattr(root, "meta", None), dict):
            self.meta.update({k: v for k, v in root.meta.items() if k == _USER_PRESERVED_ATTRIBUTES_KEY})
        self._create_node_hooks, self._erase_node_hooks, self._deepcopy_hooks = [], [], []

    __jit_unused_properties__ = ["graph"]

    @property
    def graph(self):
        """The graph. Call `recompile` after changes."""
        return self._graph

    @graph.setter
    def graph(self, g):
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self):
        """The Python source of forward."""
        if not hasattr(self, "_code"):
            raise RuntimeError("Code has not been generated! Please report a bug to PyTorch")
        return self._code

    def recompile(self):
        """Writes forward again, after the graph was changed."""
        written = self._graph.python_code(root_module="self")
        self._code, self._lineno_map = written.src, written._lineno_map
        self.__class__.forward = _forward_from_src(written.src, written.globals)
        return written

    def add_submodule(self, target, m):
        """Adds a submodule under a path; False if something else is in the way."""
        *prefix, name = target.split(".")
        module = self
        for part in prefix:
            child = getattr(module, part, None)
            if child is None:
                child = Module()
                setattr(module, part, child)
            if not isinstance(child, Module):
                return False
            module = child
        module.add_module(name, m)
        return True

    def delete_submodule(self, target):
        """Removes the submodule of a path; False if there is none."""
        prefix, _, name = target.rpartition(".")
        module, found = _find(self, prefix) if prefix else (self, True)
        if not found or not isinstance(module, Module) or not isinstance(getattr(module, name, None), Module):
            return False
        delattr(module, name)
        return True

    def delete_all_unused_submodules(self):
        """Removes submodules that the graph does not call."""
        used = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = node.target.split(".")
                used.update(".".join(parts[: i + 1]) for i in range(len(parts)))
                if node.op == "call_module":
                    module, found = _find(self, node.target)
                    inner = module.named_modules() if found else ()
                    used.update(f"{node.target}.{name}" for name, _ in inner if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    def to_folder(self, folder, module_name="FxModule"):
        """Writes a Python package with the module's code, and its weights beside it."""
        from ..serialization import save

        os.makedirs(folder, exist_ok=True)
        save(self.state_dict(), os.path.join(folder, "state_dict.pt"))
        lines = ["import torch", "from torch.nn import *", "", f"class {module_name}(torch.nn.Module):",
                 "    def __init__(self):", "        super().__init__()"]  # fmt: skip
        for name, module in self.named_children():
            path = os.path.join(folder, f"{name}.pt")
            save(module, path)
            lines.append(f"        self.{name} = torch.load(r'{path}', weights_only=False) # {repr(module).splitlines()[0]}")
        for kind, table in (("parameter", self._parameters), ("buffer", self._buffers)):
            for name, value in table.items():
                if value is not None:
                    made = f"torch.empty({list(value.shape)}, dtype={value.dtype})"
                    made = f"torch.nn.Parameter({made})" if kind == "parameter" else made
                    lines.append(f"        self.register_{kind}('{name}', {made})")
        lines.append(f"        self.load_state_dict(torch.load(r'{os.path.join(folder, 'state_dict.pt')}'))")
        body = "\n".join("    " + line if line else "" for line in self.code.strip().split("\n"))
        with open(os.path.join(folder, "module.py"), "w") as file:
            file.write("\n".join(lines) + "\n\n" + body + "\n")
        with open(os.path.join(folder, "__init__.py"), "w") as file:
            file.write("from .module import *\n")

    def print_readable(self, print_output=True, include_stride=False, include_device=False, colored=False, *,
                       fast_sympy_print=False, expanded_def=False, additional_meta=None):  # fmt: skip
        """Prints, and returns, the code as a class, with those of the graph modules in it."""
        source = self._graph.python_code("self", verbose=True, include_stride=include_stride, include_device=include_device,
                                         expanded_def=expanded_def, additional_meta=additional_meta).src  # fmt: skip
        body = "\n".join("    " + line if line.strip() else "" for line in source.strip("\n").split("\n"))
        text = f"class {self._get_name()}(torch.nn.Module):\n{body}\n"
        for child in self.children():
            if hasattr(child, "print_readable"):
                inner = child.print_readable(print_output=False, include_stride=include_stride)
                text += "\n" + "\n".join("    " + line if line else "" for line in inner.split("\n"))
        if print_output:
            print(text)
        return text

    def __str__(self):
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self._code, hint])

    def _state(self):
        state = self.__dict__.copy()
        for name in ("_graph", "_lineno_map", "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks"):
            state.pop(name, None)
        return state

    def __reduce__(self):
        return reduce_graph_module, (self._state(), _imports(self._graph.python_code(root_module="self").globals))

    def __deepcopy__(self, memo):
        shell = type(self).__new__(type(self))
        memo[id(self)] = shell
        state = copy.deepcopy(self._state(), memo)
        GraphModule.__init__(shell, _CodeOnlyModule(state), copy.deepcopy(self._graph, memo), type(self).__name__)
        for name in ("_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
                     "_load_state_dict_post_hooks", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks"):  # fmt: skip
            if name in state:
                shell.__dict__[name] = state[name]
        shell.meta = copy.copy(state.get("meta", {}))
        for hook in self._deepcopy_hooks:
            hook(shell)
        return shell

    def __copy__(self):
        result = _make_graph_module(self, self.graph)
        result.meta = self.meta
        return result

    def _register_create_node_hook(self, f):
        self._create_node_hooks = [*self._create_node_hooks, f]

    def _unregister_create_node_hook(self, f):
        self._create_node_hooks = [hook for hook in self._create_node_hooks if hook is not f]

    def _register_erase_node_hook(self, f):
        self._erase_node_hooks = [*self._erase_node_hooks, f]

    def _unregister_erase_node_hook(self, f):
        self._erase_node_hooks = [hook for hook in self._erase_node_hooks if hook is not f]

    def _register_deepcopy_hook(self, f):
        self._deepcopy_hooks = [*self._deepcopy_hooks, f]

    def _unregister_deepcopy_hook(self, f):
        self._deepcopy_hooks = [hook for hook in self._deepcopy_hooks if hook is not f]


def _imports(scope):
    """Statements that give generated code its globals."""
    known = _code_globals()
    lines = [
        f"from {value.__module__} import {value.__qualname__} as {name}"
        for name, value in scope.items() if name not in known and hasattr(value, "__qualname__")
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def reduce_graph_module(body, import_block):
    """A graph module from its attributes: its code is run once more to trace it."""
    from ._symbolic_trace import Tracer

    scope = {}
    exec(import_block, scope)
    return _from_code(_forward_from_src(body.pop("_code"), {**_code_globals(), **scope}), body, Tracer)


def _code_globals():
    from ._code import _known_globals

    return _known_globals()


def _from_code(forward, body, default_tracer):
    tracer_cls = body.get("_tracer_cls") or default_tracer
    name = body.pop("_graphmodule_cls_name", "GraphModule")
    module = _CodeOnlyModule(body)
    cls = type("CodeOnlyModule", (_CodeOnlyModule,), {"forward": forward})
    module.__class__ = cls

    class KeepModules(tracer_cls):
        def is_leaf_module(self, m, module_qualified_name):
            return True

    graph = KeepModules().trace(module)
    graph._tracer_cls = tracer_cls
    result = _make_graph_module(module, graph, class_name=name)
    for key, value in body.items():
        if not hasattr(result, key):
            setattr(result, key, value)
    return result


def _make_graph_module(*args, graph_module_cls=None, **kwargs):
    return (graph_module_cls or GraphModule)(*args, **kwargs)


def reduce_package_graph_module(importer, body, generated_module_name):
    """A graph module from a package that has its code as a module."""
    forward = importer.import_module(generated_module_name).forward
    from ._symbolic_trace import Tracer

    body.pop("_code", None)
    return _from_code(forward, body, Tracer)
