"""PyTorch's settings of its tracer, with its defaults: programs may read and set them, and nothing depends on them."""
import contextlib
import functools
import sys

recompile_limit = cache_size_limit = 8
accumulated_recompile_limit = accumulated_cache_size_limit = 256
suppress_errors = verbose = disable = error_on_recompile = fail_on_recompile_limit_hit = False
capture_scalar_outputs = capture_dynamic_output_shape_ops = allow_unspec_int_on_nn_module = False
specialize_int = specialize_float = allow_rnn = cprofile = compiled_autograd = do_not_emit_runtime_asserts = False
enable_compiler_collectives = skip_fwd_side_effects_in_bwd_under_checkpoint = False
optimize_ddp = assume_static_by_default = automatic_dynamic_shapes = inline_inbuilt_nn_modules = dynamic_shapes = True
guard_nn_modules = force_parameter_static_shapes = skip_nnmodule_hook_guards = trace_numpy = True
raise_on_ctx_manager_usage = True
log_file_name = None
numpy_default_float = "float64"


def patching(module):
    """The function `patch` of a module of settings."""

    @contextlib.contextmanager
    def patch(name=None, value=None, **settings):
        """Other settings within the context: a name and a value, a dictionary, or named arguments."""
        if isinstance(name, dict):
            settings.update(name)
        elif name is not None:
            settings[name] = value
        places = [_place(sys.modules[module], key) for key in settings]
        saved = [(place, key, getattr(place, key)) for place, key in places]
        for (place, key), setting in zip(places, settings.values()):
            setattr(place, key, setting)
        try:
            yield
        finally:
            for place, key, setting in saved:
                setattr(place, key, setting)

    return patch


def _place(module, name):
    """Where 'part.name' is set, and its last name."""
    *parts, last = name.split(".")
    return functools.reduce(getattr, parts, module), last


patch = patching(__name__)
