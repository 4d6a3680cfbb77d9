# Made by scripts/stubs.
from builtins import bool as _bool, float as _float
from typing import Any

from . import (
    clip_grad as clip_grad, convert_parameters as convert_parameters, fusion as fusion, init as init,
    memory_format as memory_format, parametrizations as parametrizations, parametrize as parametrize, prune as prune,
    rnn as rnn, stateless as stateless,
)
from .clip_grad import (
    clip_grad_norm as clip_grad_norm, clip_grad_norm_ as clip_grad_norm_, clip_grad_value_ as clip_grad_value_,
)
from .convert_parameters import (
    parameters_to_vector as parameters_to_vector, vector_to_parameters as vector_to_parameters,
)
from .fusion import (
    fuse_conv_bn_eval as fuse_conv_bn_eval, fuse_conv_bn_weights as fuse_conv_bn_weights,
    fuse_linear_bn_eval as fuse_linear_bn_eval, fuse_linear_bn_weights as fuse_linear_bn_weights,
)
from .init import skip_init as skip_init
from .memory_format import (
    convert_conv2d_weight_memory_format as convert_conv2d_weight_memory_format,
    convert_conv3d_weight_memory_format as convert_conv3d_weight_memory_format,
)
from .spectral_norm import remove_spectral_norm as remove_spectral_norm, spectral_norm as spectral_norm
from .weight_norm import remove_weight_norm as remove_weight_norm, weight_norm as weight_norm
def clip_grads_with_norm_(parameters: Any, max_norm: _float, total_norm: Any, foreach: _bool | None = None) -> Any: ...
def get_total_norm(tensors: Any, norm_type: _float = 2.0, error_if_nonfinite: _bool = False, foreach: _bool | None = None) -> Any: ...
