"""Handles for removable hooks, and the mechanism behind a module's full backward hooks."""
import weakref
from collections import OrderedDict

from .. import _C

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks", "BackwardHook"]


class RemovableHandle:
    """Removes a hook from the dictionary it was put in. Also a context manager."""

    next_id = 0

    def __init__(self, hooks_dict, *, extra_dict=None):
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extras = () if extra_dict is None else extra_dict if isinstance(extra_dict, list) else (extra_dict,)
        self.extra_dict_ref = tuple(weakref.ref(d) for d in extras)

    def remove(self):
        """Take the hook out of its table."""
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self):
        state = (self.hooks_dict_ref(), self.id)
        return (*state, tuple(r() for r in self.extra_dict_ref)) if self.extra_dict_ref else state

    def __setstate__(self, state):
        hooks = state[0] if state[0] is not None else OrderedDict()
        self.hooks_dict_ref = weakref.ref(hooks)
        self.id = state[1]
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)
        self.extra_dict_ref = () if len(state) < 3 else tuple(
            weakref.ref(d if d is not None else OrderedDict()) for d in state[2]
        )

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()


def unserializable_hook(f):
    """Mark a hook that must not be saved with its tensor."""
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor):
    """Warn that a tensor's backward hooks are not saved with it."""
    import warnings

    for key in tensor._backward_hooks or ():
        hook = tensor._backward_hooks[key]
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can decorate the "
                "function with @torch.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=2,
            )


_identity = None


def _identity_function():
    """An autograd function that returns its inputs; its node carries the hooks."""
    global _identity
    if _identity is None:
        from ..autograd import Function

        class BackwardHookFunction(Function):
            @staticmethod
            def forward(ctx, *args):
                ctx.mark_non_differentiable(*[a for a in args if not a.requires_grad])
                return args

            @staticmethod
            def backward(ctx, *grads):
                return grads

        _identity = BackwardHookFunction
    return _identity


class BackwardHook:
    """One call of a module with full backward hooks: identity nodes around it catch its two gradients."""

    def __init__(self, module, user_hooks, user_pre_hooks):
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.grad_outputs = None
        self.n_inputs = self.n_outputs = -1
        self.input_indices = self.output_indices = ()

    def _wrap(self, values, attach):
        """Pass the tensors of a tuple through one identity node; returns the tuple, the tensors' places."""
        where = [i for i, v in enumerate(values) if isinstance(v, _C.Tensor)]
        tensors = [values[i] for i in where]
        if not (_C.is_grad_enabled() and any(t.requires_grad for t in tensors)):
            return values, None
        outs = _identity_function().apply(*tensors)
        nodes = [t.grad_fn for t in outs if t.grad_fn is not None]
        if not nodes:
            raise RuntimeError("Error while setting up backward hooks. Please open an issue with a code sample.")
        attach(nodes[0])
        result = list(values)
        for i, t in zip(where, outs):
            result[i] = t
        if type(values) is not tuple and hasattr(values, "_fields"):
            return type(values)(*result), where
        return tuple(result), where

    @staticmethod
    def _spread(where, values, size):
        full = [None] * size
        for i, v in zip(where, values):
            full[i] = v
        return tuple(full)

    def _run(self, grad_input, grad_output):
        result = None
        for hook in self.user_hooks:
            out = hook(self.module, grad_input, grad_output)
            if out is None:
                continue
            if not isinstance(out, (tuple, list)):
                out = (out,)
            if len(out) != len(grad_input):
                raise RuntimeError(
                    "Backward hook returned an invalid number of grad_input, "
                    f"got {len(out)}, but expected {len(grad_input)}"
                )
            result = grad_input = out
        return result

    def setup_input_hook(self, args):
        """Watch the inputs of a module."""
        def attach(node):
            def hook(grad_input, _):
                if self.grad_outputs is None:
                    return None
                full = self._spread(self.input_indices, grad_input, self.n_inputs)
                out = self._run(full, self.grad_outputs)
                self.grad_outputs = None
                return None if out is None else tuple(out[i] for i in self.input_indices)

            node.register_hook(hook)

        args, where = self._wrap(args, attach)
        self.n_inputs = len(args)
        self.input_indices = where
        return args

    def setup_output_hook(self, result):
        """Watch the outputs of a module."""
        def attach(node):
            def hook(_, grad_output):
                full = self._spread(self.output_indices, grad_output, self.n_outputs)
                changed = False
                for pre_hook in self.user_pre_hooks:
                    out = pre_hook(self.module, full)
                    if out is None:
                        continue
                    if isinstance(out, _C.Tensor):
                        out = (out,)
                    if len(out) != len(full):
                        raise RuntimeError(
                            "Backward pre hook returned an invalid number of grad_output, "
                            f"got {len(out)}, but expected {len(full)}"
                        )
                    full, changed = tuple(out), True
                self.grad_outputs = full
                if self.input_indices is None and self.user_hooks:
                    import warnings

                    warnings.warn(
                        "Full backward hook is firing when gradients are computed with respect to module outputs since no "
                        "inputs require gradients. See https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
                        "#torch.nn.Module.register_full_backward_hook for more details.",
                        stacklevel=5,
                    )
                    nothing = (None,) * self.n_inputs
                    for user_hook in self.user_hooks:
                        out = user_hook(self.module, nothing, full)
                        if out is not None and not (isinstance(out, tuple) and all(g is None for g in out)):
                            raise RuntimeError(
                                "Backward hook for Modules where no input requires gradient should always return None or "
                                "None for all gradients."
                            )
                    self.grad_outputs = None
                return tuple(full[i] for i in self.output_indices) if changed else None

            node.register_prehook(lambda grad_output: hook(None, grad_output))

        single = not isinstance(result, tuple)
        values, where = self._wrap((result,) if single else result, attach)
        self.n_outputs = len(values)
        self.output_indices = where
        return values[0] if single else values
