"""Batch normalization."""
from ... import _C
from ..._names import factory_kwargs
from .. import functional as F
from ..parameter import UninitializedBuffer, UninitializedParameter
from ._build import affine_shapes, keep, listed, make, neutral, statistics_of, weight_and_bias
from .lazy import LazyModuleMixin
from .module import Module

__all__ = [
    "BatchNorm1d", "LazyBatchNorm1d", "BatchNorm2d", "LazyBatchNorm2d", "BatchNorm3d", "LazyBatchNorm3d", "SyncBatchNorm",
]


class _NormBase(Module):
    """Affine parameters and running statistics of a norm over channels."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]

    def __init__(
        self, num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None, *,
        bias=True,
    ):
        super().__init__()
        like = factory_kwargs(device, dtype)
        keep(
            self, num_features=num_features, eps=eps, momentum=momentum, affine=affine,
            track_running_stats=track_running_stats,
        )
        make(self, like, **affine_shapes(num_features, affine, bias))
        tracked = (None, None, None)
        if track_running_stats:
            counter = _C.tensor(0, dtype=_C.long, device=device)
            tracked = (_C.zeros(num_features, **like), _C.ones(num_features, **like), counter)
        for name, tensor in zip(("running_mean", "running_var", "num_batches_tracked"), tracked):
            self.register_buffer(name, tensor)
        self.reset_parameters()

    def reset_running_stats(self):
        """Running mean 0, variance 1, no batches seen."""
        if self.track_running_stats:
            for tensor, value in ((self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)):
                tensor.fill_(value)

    def reset_parameters(self):
        """Weight 1, bias 0, fresh statistics."""
        self.reset_running_stats()
        if self.affine:
            neutral(self)

    def _check_input_dim(self, input):
        raise NotImplementedError

    def extra_repr(self):
        ends = listed(self, "eps", "momentum", "affine"), listed(self, "track_running_stats")
        return f"{self.num_features}, {ends[0]}, bias={self.bias is not None}, {ends[1]}"

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        key = prefix + "num_batches_tracked"
        old = (local_metadata.get("version") or 0) < 2
        if old and self.track_running_stats and key not in state_dict:  # such files lack it
            have = self.num_batches_tracked
            known = have is not None and not have.is_meta
            state_dict[key] = have if known else _C.tensor(0, dtype=_C.long)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    def forward(self, input):
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        mean, var, batches = statistics_of(self)
        if self.training and self.track_running_stats and batches is not None:
            batches.add_(1)
            if self.momentum is None:  # the mean over all batches
                factor = 1.0 / float(batches)
        batch_stats = self.training or (mean is None and var is None)
        if self.training and not self.track_running_stats:
            mean = var = None
        return F.batch_norm(input, mean, var, *weight_and_bias(self), batch_stats, factor, self.eps)


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """A norm that learns `num_features` from its first input."""

    weight: UninitializedParameter
    bias: UninitializedParameter

    def __init__(
        self, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None, *, bias=True
    ):
        like = factory_kwargs(device, dtype)
        super().__init__(0, eps, momentum, False, False, **like, bias=bias)
        keep(self, affine=affine, track_running_stats=track_running_stats)
        for name, shape in affine_shapes(0, affine, bias).items():
            if shape is not None:
                setattr(self, name, UninitializedParameter(**like))
        if track_running_stats:
            self.running_mean, self.running_var = UninitializedBuffer(**like), UninitializedBuffer(**like)
            self.num_batches_tracked = _C.tensor(0, dtype=_C.long, device=device)

    def reset_parameters(self):
        """Weight 1, bias 0, fresh statistics, once there is a shape."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input):
        """Take the number of channels from the first input."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        waiting = [self.weight, self.bias] if self.affine else []
        if self.track_running_stats:
            waiting += [self.running_mean, self.running_var]
        for tensor in waiting:
            if tensor is not None:
                tensor.materialize((self.num_features,))
        self.reset_parameters()


def _expect(input, *ranks):
    if input.dim() not in ranks:
        text = " or ".join(f"{r}D" for r in ranks)
        raise ValueError(f"expected {text} input (got {input.dim()}D input)")


class BatchNorm1d(_BatchNorm):
    """Batch norm of (N, C) or (N, C, L)."""

    def _check_input_dim(self, input):
        _expect(input, 2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch norm of (N, C, H, W)."""

    def _check_input_dim(self, input):
        _expect(input, 4)


class BatchNorm3d(_BatchNorm):
    """Batch norm of (N, C, D, H, W)."""

    def _check_input_dim(self, input):
        _expect(input, 5)


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm1d` without `num_features`."""

    cls_to_become = BatchNorm1d
    _check_input_dim = BatchNorm1d._check_input_dim


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm2d` without `num_features`."""

    cls_to_become = BatchNorm2d
    _check_input_dim = BatchNorm2d._check_input_dim


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm3d` without `num_features`."""

    cls_to_become = BatchNorm3d
    _check_input_dim = BatchNorm3d._check_input_dim


class SyncBatchNorm(_BatchNorm):
    """Batch norm over all processes of a group; with one process, plain batch norm."""

    def __init__(
        self, num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True, process_group=None, device=None,
        dtype=None, *, bias=True,
    ):
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, **factory_kwargs(device, dtype), bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """Replace every batch norm below `module` by a SyncBatchNorm with the same tensors."""
        result = module
        if isinstance(module, _BatchNorm):
            sizes = module.num_features, module.eps, module.momentum
            flags = module.affine, module.track_running_stats
            result = SyncBatchNorm(*sizes, *flags, process_group, bias=module.bias is not None)
            if module.affine:
                result.weight = module.weight
                if module.bias is not None:
                    result.bias = module.bias
            names = ["running_mean", "running_var", "num_batches_tracked", "training"]
            for name in names + ["qconfig"] * hasattr(module, "qconfig"):
                setattr(result, name, getattr(module, name))
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result
