"""Custom functions: a forward and a backward of one's own."""
import functools
import warnings

from .. import _C
from ._forward_mode import join_duals, split_duals

__all__ = [
    "FunctionCtx", "BackwardCFunction", "FunctionMeta", "Function", "once_differentiable", "InplaceFunction",
    "NestedIOFunction",
]  # fmt: skip

_FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward."
)


class FunctionCtx:
    """What forward and backward share: saved tensors, marks, and any attribute set on it."""

    needs_input_grad = ()
    materialize_grads = True
    dirty_tensors = None
    non_differentiable = None
    to_save = ()
    saved_for_forward = None

    def save_for_backward(self, *tensors):
        """Keeps inputs or outputs for backward, checked there for changes in place."""
        self.to_save = tensors

    def save_for_forward(self, *tensors):
        """Keeps tensors for `jvp`."""
        for tensor in tensors:
            if not (isinstance(tensor, _C.Tensor) or tensor is None):
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes "
                    "on ctx."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args):
        """Says which inputs forward changed in place; they must be outputs."""
        self.dirty_tensors = args

    def mark_shared_storage(self, *pairs):
        """Deprecated: shared storage is tracked without it."""
        warnings.warn(
            "mark_shared_storage is deprecated. Tensors with shared storages are automatically tracked. Note that calls "
            "to `set_()` are not tracked",
            FutureWarning,
            stacklevel=2,
        )

    def mark_non_differentiable(self, *args):
        """Says which outputs carry no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value):
        """Should missing gradients come as zeros (the default) or as None?"""
        self.materialize_grads = value


class BackwardCFunction(_C._PyNode, FunctionCtx):
    """The node of a custom function in the graph: what `ctx` and `grad_fn` are."""

    _forward_cls = None
    _saved = ()
    _freed = False
    _in_jvp = False

    def name(self):
        return type(self).__name__

    @property
    def saved_tensors(self):
        if self._in_jvp:
            return self.saved_for_forward or ()
        if self._freed:
            raise RuntimeError(_FREED)
        if not self._saved and self.to_save:  # still in forward
            return tuple(self.to_save)
        return tuple(None if s is None else s.unpack(self) for s in self._saved)

    @property
    def saved_variables(self):
        import warnings

        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self):
        if self._freed:
            raise RuntimeError(_FREED)
        return self._saved

    def _pack(self, outputs):
        for i, t in enumerate(self.to_save):
            if not (t is None or isinstance(t, _C.Tensor)):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {i} is of type {type(t).__name__}"
                )
        self._saved = tuple(
            None if t is None else _C.SavedTensor(t, any(t is o for o in outputs)) for t in self.to_save
        )
        self.to_save = ()

    def _release(self):
        """Called by the engine once the graph is not needed any more."""
        self._freed, self._saved = bool(self._saved), ()

    def apply(self, *grads):
        """Runs the user's backward; called by the engine with one gradient or None for each output."""
        forward_cls = self._forward_cls
        own_backward = forward_cls.backward is not Function.backward
        own_vjp = forward_cls.vjp is not Function.vjp
        if own_backward and own_vjp:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement "
                "one of them."
            )
        result = (forward_cls.vjp if own_vjp else forward_cls.backward)(self, *grads)
        return self._check_gradients(result)

    def apply_jvp(self, *tangents):
        """The output tangents of the `jvp` that belongs to this node."""
        return self._forward_cls.jvp(self, *tangents)

    def _check_gradients(self, result):
        grads = result if isinstance(result, tuple) else (result,)
        n = len(self.needs_input_grad)
        if len(grads) > n and all(g is None for g in grads[n:]):
            grads = grads[:n]
        if len(grads) != n:
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected {n}, got {len(grads)})"
            )
        for g in grads:
            if not (g is None or isinstance(g, _C.Tensor)):
                raise RuntimeError(f"expected Variable or None (got {type(g).__name__})")
        return tuple(g if wanted else None for g, wanted in zip(grads, self.needs_input_grad))


class FunctionMeta(type):
    """Gives each Function class the class of its nodes, `<Name>Backward`."""

    def __init__(cls, name, bases, attrs):
        cls._backward_cls = type(name + "Backward", (BackwardCFunction,), {"_forward_cls": cls, "__module__": __name__})
        super().__init__(name, bases, attrs)


class Function(metaclass=FunctionMeta):
    """Base of custom functions: static `forward(ctx, ...)` and `backward(ctx, *grads)`, called by `Name.apply(...)`.

    With a static `setup_context(ctx, inputs, output)`, forward takes no ctx.
    """

    generate_vmap_rule = False

    def __init__(self, *args, **kwargs):
        warnings.warn(
            f"{self.__class__} should not be instantiated. Methods on autograd functions are all static, so you should "
            "invoke them on the class itself. Instantiating an autograd function will raise an error in a future "
            "version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args, **kwargs):
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Save what backward needs, when `forward` takes no context."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = staticmethod(lambda ctx, *grad_outputs: Function.backward(ctx, *grad_outputs))

    @staticmethod
    def jvp(ctx, *grad_inputs):
        """The tangents of the outputs from those of the inputs."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info, in_dims, *args):
        """The function over inputs that have a batch dimension."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
            "generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args, **kwargs):
        """Runs forward without recording and hangs its outputs into the graph."""
        split = cls.setup_context is not Function.setup_context
        if split and (kwargs or _has_defaults(cls.forward)):
            args, kwargs = _bind_defaults(cls.forward, args, kwargs)
        elif kwargs:
            args, kwargs = _bind_defaults(cls.forward, (None, *args), kwargs)
            args = args[1:]
        if _vmap_levels and any(hasattr(type(a), "_flambeau_batched") for a in args):
            from ..func._function import vmap_function

            return vmap_function(cls, args)
        dual = split_duals(args)
        if dual is None:
            return cls._call(args, kwargs, split)[0]
        output, ctx = cls._call(dual[0], kwargs, split)
        return join_duals(ctx, args, *dual, output)

    @classmethod
    def _call(cls, args, kwargs, split):
        """The outputs, in the graph, and their node."""
        ctx = cls._backward_cls()
        inputs = tuple(a if isinstance(a, _C.Tensor) else None for a in args)
        ctx.needs_input_grad = tuple(a is not None and a.requires_grad for a in inputs)
        enabled = _C.is_grad_enabled()
        recording = enabled and any(ctx.needs_input_grad)
        _C._set_grad_enabled(False)
        try:
            if split:
                output = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args, **kwargs)
        finally:
            _C._set_grad_enabled(enabled)
        return _finish(ctx, inputs, output, recording), ctx


_vmap_levels = []  # the batching levels that are open; filled by flambeau.func


def _finish(ctx, inputs, output, recording):
    """Marks, wraps and saves after forward; returns what apply returns."""
    single = not isinstance(output, tuple)
    outputs = (output,) if single else output
    dirty, constant = ctx.dirty_tensors or (), ctx.non_differentiable or ()
    for marked, refusal in ((dirty, "mark_dirty can only accept variables, but argument "),
                            (constant, "mark_non_differentiable only accepts variable arguments, but got ")):  # fmt: skip
        for t in marked:
            if not isinstance(t, _C.Tensor):
                raise RuntimeError(refusal + type(t).__name__)
    if any(not any(d is o for o in outputs) for d in dirty):
        raise RuntimeError(
            "Some elements marked as dirty during the forward method were not returned as output. The inputs that are "
            "modified inplace must all be outputs of the Function."
        )
    ctx.dirty_tensors = ctx.non_differentiable = None
    if recording or dirty:
        places = [i for i, o in enumerate(outputs) if isinstance(o, _C.Tensor)]
        constant_places = tuple(i for i, o in enumerate(outputs) if any(o is c for c in constant))
        dirty_places = tuple(i for i, o in enumerate(outputs) if any(o is d for d in dirty))
        before = outputs
        outputs = ctx._attach(inputs, outputs, dirty_places, constant_places, recording)
        swap = {id(before[i]): outputs[i] for i in places}
        ctx.to_save = tuple(swap.get(id(t), t) if _is_one_of(t, before) else t for t in ctx.to_save)
    elif any(o is a for o in outputs for a in inputs if a is not None):
        outputs = tuple(
            o.view_as(o) if isinstance(o, _C.Tensor) and any(o is a for a in inputs) else o for o in outputs
        )
    if recording:
        ctx._pack(outputs)
    return outputs[0] if single else tuple(outputs)


def _is_one_of(tensor, outputs):
    return tensor is not None and any(tensor is o for o in outputs)


@functools.lru_cache(maxsize=None)
def _signature(forward):
    import inspect

    return inspect.signature(forward)


def _has_defaults(forward):
    return any(p.default is not p.empty for p in _signature(forward).parameters.values())


def _bind_defaults(forward, args, kwargs):
    bound = _signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args, bound.kwargs


def once_differentiable(fn):
    """Decorates a backward that cannot be differentiated itself; a second derivative through it raises."""

    @functools.wraps(fn)
    def wrapper(ctx, *args):
        with _no_grad():
            outputs = fn(ctx, *args)
        if not _C.is_grad_enabled():
            return outputs
        if not any(isinstance(a, _C.Tensor) and a.requires_grad for a in args):
            return outputs
        single = not isinstance(outputs, tuple)
        values = (outputs,) if single else outputs
        values = tuple(
            _Refuse.apply(o, *(a for a in args if isinstance(a, _C.Tensor))) if isinstance(o, _C.Tensor) else o
            for o in values
        )
        return values[0] if single else values

    return wrapper


class _no_grad:
    def __enter__(self):
        self.prev = _C.is_grad_enabled()
        _C._set_grad_enabled(False)

    def __exit__(self, *exc):
        _C._set_grad_enabled(self.prev)


class _Refuse(Function):
    """Passes a value on; its derivative is an error."""

    @staticmethod
    def forward(ctx, value, *sources):
        return value.detach()

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


class InplaceFunction(Function):
    """Kept for old programs: a Function with an `inplace` flag."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace


def _map_structure(data, fn):
    if isinstance(data, _C.Tensor):
        return fn(data)
    if isinstance(data, (list, tuple)):
        mapped = [_map_structure(d, fn) for d in data]
        return type(data)(*mapped) if hasattr(data, "_fields") else type(data)(mapped)
    if isinstance(data, dict):
        return {k: _map_structure(v, fn) for k, v in data.items()}
    return data


def _flat_tensors(data):
    if isinstance(data, _C.Tensor):
        yield data
    elif isinstance(data, (list, tuple)):
        for d in data:
            yield from _flat_tensors(d)
    elif isinstance(data, dict):
        for d in data.values():
            yield from _flat_tensors(d)


class NestedIOFunction(Function):
    """A Function whose inputs and outputs are nested lists, tuples and dicts of tensors."""

    @classmethod
    def apply(cls, *args):
        box = {}

        def forward(ctx, *flat):
            it = iter(flat)
            ctx._nested_args = _map_structure(args, lambda _: next(it))
            box["out"] = cls.forward_extended(ctx, *ctx._nested_args)
            return tuple(_flat_tensors(box["out"]))

        def backward(ctx, *grads):
            it = iter(grads)
            nested = _map_structure(box["out"], lambda _: next(it))
            result = cls.backward_extended(ctx, *(nested if isinstance(nested, tuple) else (nested,)))
            return tuple(_flat_tensors(result))

        flat_cls = FunctionMeta(
            cls.__name__, (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        )
        it = iter(flat_cls.apply(*_flat_tensors(args)))
        return _map_structure(box["out"], lambda _: next(it))

    @staticmethod
    def forward_extended(ctx, *inputs):
        """The forward pass over nested inputs; defined by subclasses."""
        raise NotImplementedError

    @staticmethod
    def backward_extended(ctx, *grads):
        """The backward pass over nested gradients; defined by subclasses."""
        raise NotImplementedError


