"""What programs set and ask of PyTorch's compiler. Nothing is compiled here: settings are kept, lists are the compiler's."""
from . import config

__all__ = ["config", "cudagraph_mark_step_begin", "list_mode_options", "list_options"]

_MODES = {
    "default": {},
    "reduce-overhead": {"triton.cudagraphs": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True, "coordinate_descent_tuning": True},
    "max-autotune": {"max_autotune": True, "triton.cudagraphs": True, "coordinate_descent_tuning": True},
}


def list_mode_options(mode=None, dynamic=None):
    """The options that a mode of `torch.compile` stands for, or those of all modes."""
    return dict(_MODES[mode]) if mode else {name: dict(options) for name, options in _MODES.items()}


def list_options():
    """The names of all options."""
    return sorted(config.get_config_copy())


def cudagraph_mark_step_begin():
    """Another step of recorded graphs begins: there are none."""
