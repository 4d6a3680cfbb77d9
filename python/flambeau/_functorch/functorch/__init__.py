"""The package `functorch` of earlier days, which PyTorch brings along: its functions warn and do as their successors."""
import functools as _functools

from ... import func as _func
from ...version import __version__  # noqa: F401
from .. import make_functional as _make_functional
from ..make_functional import FunctionalModule, FunctionalModuleWithBuffers  # noqa: F401

_WARNING = (
    "We've integrated functorch into PyTorch. As the final step of the integration, `functorch.{}` is deprecated as of "
    "PyTorch 2.0 and will be deleted in a future version of PyTorch >= 2.3. Please use `{}` instead; see the PyTorch 2.0 "
    "release notes and/or the `torch.func` migration guide for more details "
    "https://pytorch.org/docs/main/func.migrating.html"
)


def _deprecated(function, successor):
    @_functools.wraps(function)
    def old(*args, **kwargs):
        import warnings

        warnings.warn(_WARNING.format(function.__name__, successor), FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    return old


vmap = _deprecated(_func.vmap, "torch.vmap")
grad = _deprecated(_func.grad, "torch.func.grad")
grad_and_value = _deprecated(_func.grad_and_value, "torch.func.grad_and_value")
vjp = _deprecated(_func.vjp, "torch.func.vjp")
jvp = _deprecated(_func.jvp, "torch.func.jvp")
jacrev = _deprecated(_func.jacrev, "torch.func.jacrev")
jacfwd = _deprecated(_func.jacfwd, "torch.func.jacfwd")
hessian = _deprecated(_func.hessian, "torch.func.hessian")
functionalize = _deprecated(_func.functionalize, "torch.func.functionalize")
make_functional = _deprecated(_make_functional.make_functional, "torch.func.functional_call")
make_functional_with_buffers = _deprecated(_make_functional.make_functional_with_buffers, "torch.func.functional_call")
combine_state_for_ensemble = _deprecated(_make_functional.combine_state_for_ensemble, "torch.func.stack_module_state")
