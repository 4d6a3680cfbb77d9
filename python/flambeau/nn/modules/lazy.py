"""Modules that learn their shapes from the first input."""
from ..parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Mixed into a module: `initialize_parameters(*input)` runs before its first forward, then the class becomes
    `cls_to_become`."""

    cls_to_become = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        hooks = {
            "_load_hook": self._register_load_state_dict_pre_hook(self._lazy_load_hook),
            "_initialize_hook": self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True),
        }
        for name, handle in hooks.items():
            setattr(self, name, handle)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, tensor in self._persistent_tensors():
            if tensor is not None:
                destination[prefix + name] = tensor if is_lazy(tensor) or keep_vars else tensor.detach()

    def _lazy_load_hook(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        """Give a tensor without shape the shape of the one that is about to be loaded."""
        from ... import _C

        for name, tensor in self._persistent_tensors():
            key = prefix + name
            if key in state_dict and tensor is not None and is_lazy(tensor) and not is_lazy(state_dict[key]):
                with _C.no_grad():
                    tensor.materialize(state_dict[key].shape)

    def initialize_parameters(self, *args, **kwargs):
        """Take shapes from the first input; a lazy module defines it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self):
        """Whether a parameter or buffer still has no shape."""
        return any(is_lazy(t) for table in (self._parameters, self._buffers) for t in table.values())

    def _infer_parameters(self, module, args, kwargs=None):
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        for name in ("_initialize_hook", "_load_hook"):
            getattr(module, name).remove()
            delattr(module, name)
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self):
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy forward pass to correctly "
            "initialize the modules"
        )


