"""Instance normalization."""
import warnings

from .. import functional as F
from ._build import statistics_of, weight_and_bias
from .batchnorm import _expect, _LazyNormBase, _NormBase

__all__ = [
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d",
]


class _InstanceNorm(_NormBase):
    def __init__(
        self, num_features, eps=1e-05, momentum=0.1, affine=False, track_running_stats=False, device=None, dtype=None, *,
        bias=True,
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self):
        return self._n + 1

    def _check_input_dim(self, input):
        _expect(input, self._n + 1, self._n + 2)

    def _apply_instance_norm(self, input):
        momentum = 0.0 if self.momentum is None else self.momentum
        own_stats = not self.track_running_stats or self.training
        mean, var, _ = statistics_of(self)
        return F.instance_norm(input, mean, var, *weight_and_bias(self), own_stats, momentum, self.eps)

    def forward(self, input):
        self._check_input_dim(input)
        dim = input.dim() - self._get_no_batch_dim()
        channels = input.size(dim)
        if channels != self.num_features and self.affine:
            raise ValueError(
                f"expected input's size at dim={dim} to match num_features ({self.num_features}), but got: {channels}."
            )
        if channels != self.num_features:
            warnings.warn(
                f"input's size at dim={dim} does not match num_features. You can silence this warning by not passing in "
                "num_features, which is not used because affine=False",
                stacklevel=2,
            )
        if dim > 0:
            return self._apply_instance_norm(input)
        return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        if not self.track_running_stats and local_metadata.get("version") is None:
            stale = [prefix + n for n in ("running_mean", "running_var") if prefix + n in state_dict]
            if stale:
                name = type(self).__name__
                error_msgs.append(
                    "Unexpected running stats buffer(s) {} for {} with track_running_stats=False. If state_dict is a "
                    "checkpoint saved before 0.4.0, this may be expected because {} does not track running stats by default "
                    "since 0.4.0. Please remove these keys from state_dict. If the running stats are actually needed, "
                    "instead set track_running_stats=True in {} to enable them. See the documentation of {} for "
                    "details.".format(" and ".join(f'"{k}"' for k in stale), name, name, name, name)
                )
                for key in stale:
                    del state_dict[key]
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class InstanceNorm1d(_InstanceNorm):
    """Instance norm of (N, C, L) or (C, L)."""

    _n = 1


class InstanceNorm2d(_InstanceNorm):
    """Instance norm of (N, C, H, W) or (C, H, W)."""

    _n = 2


class InstanceNorm3d(_InstanceNorm):
    """Instance norm of (N, C, D, H, W) or (C, D, H, W)."""

    _n = 3


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An `InstanceNorm1d` without `num_features`."""

    cls_to_become = InstanceNorm1d
    _n = 1


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An `InstanceNorm2d` without `num_features`."""

    cls_to_become = InstanceNorm2d
    _n = 2


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An `InstanceNorm3d` without `num_features`."""

    cls_to_become = InstanceNorm3d
    _n = 3
