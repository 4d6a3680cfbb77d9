"""Custom functions of dual tensors: the tangents go through the function's `jvp`."""
from .. import _C
from . import forward_ad


def split_duals(args):
    """The primals and the tangents of some arguments; nothing if none of them carries a tangent."""
    if forward_ad._current_level < 0:
        return None
    pairs = [forward_ad.unpack_dual(a) if isinstance(a, _C.Tensor) else (a, None) for a in args]
    if all(tangent is None for _, tangent in pairs):
        return None
    primals = [a if tangent is None else primal for a, (primal, tangent) in zip(args, pairs)]
    return primals, [tangent for _, tangent in pairs]


def _is_differentiable(value):
    return isinstance(value, _C.Tensor) and (value.is_floating_point() or value.is_complex())


def join_duals(ctx, args, primals, tangents, output):
    """The output of a function of the primals, with the tangents that its `jvp` makes of theirs."""
    if ctx.materialize_grads:
        tangents = [
            _C.zeros_like(p) if t is None and _is_differentiable(p) else t for p, t in zip(primals, tangents)
        ]
    ctx._in_jvp = True
    try:
        made = ctx.apply_jvp(*tangents)
    finally:
        del ctx._in_jvp
    made = made if isinstance(made, tuple) else (made,)
    outputs = output if isinstance(output, tuple) else (output,)
    if len(made) != len(outputs):
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {len(outputs)} but got {len(made)})"
        )
    originals = {id(p): a for p, a in zip(primals, args) if p is not a}
    result = []
    for i, (value, tangent) in enumerate(zip(outputs, made)):
        if not (tangent is None or isinstance(tangent, _C.Tensor)):
            raise RuntimeError(f"expected Variable or None (got {type(tangent).__name__}) for grad output {i}.")
        if not _is_differentiable(value):
            if tangent is not None:
                raise RuntimeError(
                    f"Function's jvp returned a gradient at position {i}, but  the corresponding forward output is not a "
                    "differentiable Tensor.You should return None at that position instead."
                )
        elif id(value) in originals:  # changed in place, as was its tangent
            value = originals[id(value)]
        elif tangent is not None:
            value = forward_ad.make_dual(value, tangent)
        result.append(value)
    return tuple(result) if isinstance(output, tuple) else result[0]
