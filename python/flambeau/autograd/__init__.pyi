# Made by scripts/stubs.
from builtins import bool as _bool
from collections.abc import Sequence
from .._C import Tensor
from .graph import GradientEdge

from . import (
    anomaly_mode as anomaly_mode, forward_ad as forward_ad, function as function, functional as functional,
    grad_mode as grad_mode, gradcheck as gradcheck, graph as graph, profiler as profiler,
    profiler_legacy as profiler_legacy, profiler_util as profiler_util, variable as variable,
)
from .anomaly_mode import detect_anomaly as detect_anomaly, set_detect_anomaly as set_detect_anomaly
from .function import Function as Function, NestedIOFunction as NestedIOFunction
from .grad_mode import (
    enable_grad as enable_grad, enforce_grad_layout_policy as enforce_grad_layout_policy,
    inference_mode as inference_mode, is_multithreading_enabled as is_multithreading_enabled,
    is_view_replay_enabled as is_view_replay_enabled, no_grad as no_grad, set_grad_enabled as set_grad_enabled,
    set_multithreading_enabled as set_multithreading_enabled,
)
from .gradcheck import gradgradcheck as gradgradcheck
from .variable import Variable as Variable
_Tensors = Tensor | GradientEdge | Sequence[Tensor] | Sequence[GradientEdge]
def backward(tensors: _Tensors, grad_tensors: Tensor | Sequence[Tensor | None] | None = None, retain_graph: _bool | None = None, create_graph: _bool = False, grad_variables: Tensor | Sequence[Tensor | None] | None = None, inputs: _Tensors | None = None) -> None: ...
def grad(outputs: _Tensors, inputs: _Tensors, grad_outputs: Tensor | Sequence[Tensor | None] | None = None, retain_graph: _bool | None = None, create_graph: _bool = False, only_inputs: _bool = True, allow_unused: _bool | None = None, is_grads_batched: _bool = False, materialize_grads: _bool = False) -> tuple[Tensor, ...]: ...
