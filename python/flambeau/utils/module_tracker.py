"""Which module runs."""
import weakref

from .. import _C
from ..autograd.graph import register_multi_grad_hook
from ..nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from ._pytree import tree_leaves

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Inside, `parents` has the names of the modules whose forward or backward runs now, and "Global"."""

    def __init__(self):
        self.parents = {"Global"}
        self._names = weakref.WeakKeyDictionary()

    def _name_of(self, module):
        if module not in self._names:
            name = self._names[module] = type(module).__name__
            for path, child in module.named_modules():
                if path and child not in self._names:
                    self._names[child] = f"{name}.{path}"
        return self._names[module]

    @property
    def is_bw(self):
        """Does a backward pass run now?"""
        return _C._current_graph_task_id() != -1

    def _watched(self, values):
        return [t for t in tree_leaves(values) if isinstance(t, _C.Tensor) and t.requires_grad]

    def _enter(self, name):
        self.parents.add(name)

    def _leave(self, name):
        self.parents.discard(name)

    def _before(self, module, inputs):
        name = self._name_of(module)
        self._enter(name)
        tensors = self._watched(inputs)
        if tensors:
            self._hooks.append(register_multi_grad_hook(tensors, lambda grads: self._leave(name)))

    def _after(self, module, inputs, outputs):
        name = self._name_of(module)
        self._leave(name)
        for tensor in self._watched(outputs):
            self._hooks.append(tensor.register_hook(lambda grad: self._enter(name)))

    def __enter__(self):
        self._hooks = []
        self._module_hooks = [register_module_forward_pre_hook(self._before), register_module_forward_hook(self._after)]
        return self

    def __exit__(self, *error):
        for hook in (*self._module_hooks, *self._hooks):
            hook.remove()
        self.parents = {"Global"}
