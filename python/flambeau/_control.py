"""`cond` and `while_loop`: control flow as functions, run at once."""
from . import _C

__all__ = ["cond", "while_loop"]


def _truth(pred):
    if isinstance(pred, _C.Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not isinstance(pred, (bool, _C.Tensor)):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    return bool(pred)


def cond(pred, true_fn, false_fn, operands=()):
    """`true_fn(*operands)` if `pred`, else `false_fn(*operands)`."""
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError("Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor "
                           f"leaves, but got {operands}.")
    return (true_fn if _truth(pred) else false_fn)(*operands)


def while_loop(cond_fn, body_fn, carried_inputs):
    """Runs `carried = body_fn(*carried)` while `cond_fn(*carried)`."""
    carried = tuple(carried_inputs)
    while _truth(cond_fn(*carried)):
        result = body_fn(*carried)
        carried = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        if len(carried) != len(carried_inputs):
            raise RuntimeError(f"body_fn should return {len(carried_inputs)} values, as many as carried_inputs, "
                               f"but got {len(carried)}.")
    return carried
