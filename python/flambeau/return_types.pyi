# Made by scripts/stubs.
from typing import NamedTuple

from ._C import Tensor

class aminmax(NamedTuple): min: Tensor; max: Tensor
class cummax(NamedTuple): values: Tensor; indices: Tensor
class cummin(NamedTuple): values: Tensor; indices: Tensor
class kthvalue(NamedTuple): values: Tensor; indices: Tensor
class log_sigmoid_forward(NamedTuple): output: Tensor; buffer: Tensor
class max(NamedTuple): values: Tensor; indices: Tensor
class median(NamedTuple): values: Tensor; indices: Tensor
class min(NamedTuple): values: Tensor; indices: Tensor
class nanmedian(NamedTuple): values: Tensor; indices: Tensor
class sort(NamedTuple): values: Tensor; indices: Tensor
class topk(NamedTuple): values: Tensor; indices: Tensor
