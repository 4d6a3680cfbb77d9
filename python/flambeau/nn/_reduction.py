"""The `reduction` argument of losses, and the two arguments that it replaced."""
import warnings

_CODES = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """The operator's code for a reduction."""
    code = _CODES.get(reduction)
    if code is not None:
        return code
    if reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=3)
        return 1
    raise ValueError(f"{reduction} is not a valid value for reduction")


def legacy_get_string(size_average, reduce, emit_warning=True) -> str:
    """The reduction meant by the old `size_average` and `reduce`."""
    if reduce is not None and not reduce:
        reduction = "none"
    else:
        reduction = "mean" if size_average is None or size_average else "sum"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.", stacklevel=3
        )
    return reduction


def legacy_get_enum(size_average, reduce, emit_warning=True) -> int:
    """As `legacy_get_string`, as the operator's code."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
