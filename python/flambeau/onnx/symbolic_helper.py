"""What rules for writing operators to ONNX are made with; nothing is written here, so rules are only kept."""
import functools

__all__ = ["parse_args", "quantized_args"]


def parse_args(*arg_descriptors):
    """Decorates a rule ``fn(g, *args)`` with how its arguments are read: 'v' values, 'i' integers, 'f' floats, ...

    AssertionError when the rule is called with more arguments than were described.
    """

    def decorate(fn):
        @functools.wraps(fn)
        def wrapper(g, *args, **kwargs):
            if len(arg_descriptors) < len(args):
                raise AssertionError(f"A mismatch between the number of arguments ({len(args)}) and their descriptors "
                                     f"({len(arg_descriptors)}) was found at symbolic function '{fn.__name__}'.")
            return fn(g, *args, **kwargs)

        wrapper._arg_descriptors = arg_descriptors
        return wrapper

    return decorate


def quantized_args(*arg_q_descriptors, scale=None, zero_point=None, quantize_output=True):
    """Decorates a rule with which of its arguments may be quantized: none are."""
    return lambda fn: fn
