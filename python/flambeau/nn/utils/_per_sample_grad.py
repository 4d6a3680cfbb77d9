"""Gradients of each sample of a batch."""
from ...utils._pytree import tree_leaves, tree_map

__all__ = ["call_for_per_sample_grads"]


def call_for_per_sample_grads(module, *, batch_size=None, loss_reduction="sum", batch_first=True):
    """A function like `module` after whose backward each parameter has `grad_sample`, `(B, *parameter.shape)`, not `grad`.

    `loss_reduction` says whether the loss is the sum over the samples or their mean. RuntimeError for other values, if the
    inputs differ in their batch size and none is given, if a `grad_sample` is there already, and for batch normalization.
    """
    from ..modules.module import Module

    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if not isinstance(module, Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(f"Batch size passed must be None or an integer, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError("Batch size must be positive")
    for parameter in module.parameters():
        _check_cleared(parameter)
    dim = 0 if batch_first else 1

    def call(*args, **kwargs):
        from ...func import functional_call, vmap

        _check_layers(module)
        size = _batch_size((args, kwargs), dim, batch_size)
        copies = {}  # of each parameter, one for each sample
        for parameter in module.parameters():
            if parameter.requires_grad:
                _check_cleared(parameter)
                copies[parameter] = _copies(parameter, size, size if loss_reduction == "mean" else 1)
        own = {name: copies[p] for name, p in module.named_parameters(remove_duplicate=False) if p in copies}

        def one(own, inputs):
            args, kwargs = tree_map(lambda x: x.unsqueeze(dim) if _is_tensor(x) else x, inputs)
            return tree_map(lambda x: x.squeeze(dim) if _is_tensor(x) else x, functional_call(module, own, args, kwargs))

        dims = tree_map(lambda x: dim if _is_tensor(x) else None, (args, kwargs))
        return vmap(one, in_dims=(0, dims), out_dims=dim, randomness="different")(own, (args, kwargs))

    return call


def _is_tensor(x):
    from ... import Tensor

    return isinstance(x, Tensor)


def _check_cleared(parameter):
    if getattr(parameter, "grad_sample", None) is not None and parameter.requires_grad:
        raise RuntimeError(
            "Current Expanded Weights accumulates the gradients, which will be incorrect for multiple calls without clearing "
            f"gradients. Please clear out the grad_sample parameter of {parameter} or post an issue to pytorch/pytorch to "
            "prioritize correct behavior")


def _check_layers(module):
    from ..modules.batchnorm import _BatchNorm

    if any(isinstance(layer, _BatchNorm) for layer in module.modules()):
        raise RuntimeError("Expanded Weights encountered but cannot handle function batch_norm")


def _batch_size(inputs, dim, wanted):
    """The batch size that all tensors have, which has to be the one that is wanted."""
    sizes = [x.shape[dim] for x in tree_leaves(inputs) if _is_tensor(x)]
    if wanted is not None:
        for size in sizes:
            if size != wanted:
                raise RuntimeError("Expected ExpandedWeights to have batch size matching input but got input batch size of "
                                   f"{size} with ExpandedWeight of batch size {wanted}")
        return wanted
    if not sizes:
        raise RuntimeError("Unable to find a tensor in the passed args and kwargs. They may not be pytree-able and so "
                           "ExpandedWeights cannot compute the batch size from the inputs. Please specify it explicitly")
    for size in sizes:
        if size != sizes[0]:
            raise RuntimeError(f"When computing batch size, found at least one input with batch size {sizes[0]} and one with "
                               f"batch size {size}. Please specify it explicitly using the batch size kwarg in "
                               "call_for_per_sample_grads")
    return sizes[0]


def _copies(parameter, size, factor):
    """A leaf with the parameter `size` times, whose gradient goes to `grad_sample`, times `factor`."""
    leaf = parameter.detach().expand(size, *parameter.shape).clone().requires_grad_()

    def keep(grad):
        parameter.grad_sample = grad.detach() * factor if factor != 1 else grad.detach()

    leaf.register_hook(keep)
    return leaf
