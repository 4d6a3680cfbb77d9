# Made by scripts/stubs.

from ._grad import (
    functionalize as functionalize, grad as grad, grad_and_value as grad_and_value, hessian as hessian,
    jacfwd as jacfwd, jacrev as jacrev, jvp as jvp, linearize as linearize, vjp as vjp,
)
from ._modules import (
    functional_call as functional_call, replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_,
    stack_module_state as stack_module_state,
)
from ._rearrange import rearrange as rearrange
from ._vmap import vmap as vmap
