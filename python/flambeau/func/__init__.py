"""Function transforms: derivatives and batching of functions, to be nested at will."""
from ._grad import functionalize, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from ._modules import functional_call, replace_all_batch_norm_modules_, stack_module_state
from ._rearrange import rearrange
from ._vmap import vmap

__all__ = [
    "grad", "grad_and_value", "vmap", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "functionalize", "functional_call",
    "stack_module_state", "linearize", "rearrange", "replace_all_batch_norm_modules_",
]  # fmt: skip


def __getattr__(name):
    if name == "debug_unwrap":
        from ._batched import BatchedTensor

        return lambda tensor, *, recurse=True: tensor._value if type(tensor) is BatchedTensor else tensor
    raise AttributeError(f"module 'flambeau.func' has no attribute '{name}'")
