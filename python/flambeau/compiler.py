"""`compile` and its helpers: programs run eagerly, unchanged."""
import functools

__all__ = ["compile", "config", "get_default_backend", "set_default_backend", "assume_constant_result", "reset",
           "allow_in_graph", "list_backends", "disable", "set_stance", "set_enable_guard_collectives",
           "cudagraph_mark_step_begin", "load_compiled_function",
           "wrap_numpy", "is_compiling", "is_dynamo_compiling", "is_exporting", "save_cache_artifacts",
           "load_cache_artifacts", "substitute_in_graph", "keep_portable_guards_unsafe", "skip_guard_on_inbuilt_nn_modules_unsafe",
           "skip_guard_on_all_nn_modules_unsafe", "keep_tensor_guards_unsafe", "skip_guard_on_globals_unsafe",
           "skip_all_guards_unsafe", "nested_compile_region"]  # fmt: skip

# PyTorch's names of compilers; none is there, and programs that ask for one run eagerly.
_BACKENDS = frozenset(
    "aot_eager aot_eager_decomp_partition aot_eager_default_partitioner aot_ts cudagraphs eager eager_debug eager_noexcept "
    "inductor invoke_subgraph openxla openxla_eval pre_dispatch_eager ts tvm".split()
)
_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


def compile(model=None, *, fullgraph=False, dynamic=None, backend=None, mode=None, options=None, name=None,
            disable=False, recompile_limit=None, isolate_recompiles=False, shapes_spec=None):  # fmt: skip
    """A module or function that runs the given one eagerly; without one, a decorator. A callable `backend` is not called."""
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if model is None:
        return lambda model: compile(model, backend=backend, disable=disable)
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    if isinstance(backend, str) and backend not in _BACKENDS:
        from ._dynamo.exc import InvalidBackend

        raise InvalidBackend(backend)
    if disable or isinstance(model, type):
        return model
    from .nn import Module

    if isinstance(model, Module):
        from ._dynamo.eval_frame import OptimizedModule

        return model if isinstance(model, OptimizedModule) else OptimizedModule(model)

    @functools.wraps(model)
    def run(*args, **kwargs):
        return model(*args, **kwargs)

    run._torchdynamo_orig_callable = model
    return run


class _Config:
    job_id = None
    force_disable_caches = False


config = _Config()


_default_backend = "inductor"


def get_default_backend():
    """The backend that `compile` names when none is given."""
    return _default_backend


def set_default_backend(backend):
    """Sets it; None sets it back."""
    global _default_backend
    _default_backend = "inductor" if backend is None else backend


def _same(fn):
    return fn


assume_constant_result = allow_in_graph = _same


def wrap_numpy(fn):
    """A function of NumPy arrays as one of tensors."""
    from . import _C

    @functools.wraps(fn)
    def wrapped(*args, **kwargs):
        array = lambda x: x.numpy() if isinstance(x, _C.Tensor) else x  # noqa: E731
        result = fn(*map(array, args), **{k: array(v) for k, v in kwargs.items()})
        return tuple(map(_C.as_tensor, result)) if isinstance(result, tuple) else _C.as_tensor(result)

    return wrapped


def disable(fn=None, recursive=True, *, reason=None):
    return fn if fn is not None else _same


def nested_compile_region(fn=None, *args, **kwargs):
    return fn if fn is not None else _same


def substitute_in_graph(original_fn, *, can_constant_fold_through=False, skip_signature_check=False):
    return _same


class set_stance:
    """Kept for programs that set it; a context manager and a decorator."""

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        self.stance = stance

    def __call__(self, fn):
        return fn

    def __enter__(self):
        return self

    def __exit__(self, *args):
        return False


def list_backends(exclude_tags=("debug", "experimental")):
    return []


def reset():
    return None


def set_enable_guard_collectives(enabled):
    return False


def cudagraph_mark_step_begin():
    return None


def is_compiling():
    return False


is_dynamo_compiling = is_exporting = is_compiling


def save_cache_artifacts():
    return None


def load_cache_artifacts(serialized_artifacts):
    return None


def load_compiled_function(file, *args, **kwargs):
    raise RuntimeError("there are no compiled functions to load: compile runs eagerly")


def _all_guards(guard_entries):
    return [True for _ in guard_entries]


keep_portable_guards_unsafe = skip_guard_on_inbuilt_nn_modules_unsafe = skip_guard_on_all_nn_modules_unsafe = _all_guards
skip_guard_on_globals_unsafe = skip_all_guards_unsafe = _all_guards


def keep_tensor_guards_unsafe(guard_entries, keep_parameters=False):
    """Every guard is kept: nothing is compiled."""
    return _all_guards(guard_entries)
