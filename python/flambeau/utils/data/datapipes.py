"""Chains of data sets: the part of PyTorch's data pipes that programs still name."""
from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable

from .dataset import Dataset, IterableDataset

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "argument_validation", "functional_datapipe",
           "guaranteed_datapipes_determinism", "non_deterministic", "runtime_validation", "runtime_validation_disabled"]

_state = {"determinism": False, "validation": True}


class DataChunk(list):
    """A list of samples that go on together."""

    def __init__(self, items) -> None:
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        return indent + "[" + ", ".join(str(i) for i in iter(self)) + "]"

    def __iter__(self):
        yield from super().__iter__()

    def raw_iterator(self):
        yield from self.items


class _Functional:
    """Functions registered by name become methods."""

    functions: dict[str, Callable] = {}

    def __getattr__(self, name):
        if name in type(self).functions:
            return functools.partial(type(self).functions[name], self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}")

    @classmethod
    def register_function(cls, function_name: str, function: Callable) -> None:
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name: str, cls_to_register, enable_df_api_tracing=False) -> None:
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")  # noqa: TRY002

        def make(source, *args, **kwargs):
            return cls_to_register(source, *args, **kwargs)

        make.__doc__ = cls_to_register.__doc__
        cls.functions[function_name] = make

    def __str__(self) -> str:
        return str(type(self).__qualname__)

    def __repr__(self) -> str:
        return str(type(self).__qualname__)

    def __dir__(self):
        return [*super().__dir__(), *type(self).functions]

    def __getstate__(self):
        return self.__dict__

    def __setstate__(self, state) -> None:
        self.__dict__.update(state)


class IterDataPipe(_Functional, IterableDataset):
    """A stream that may be built on others."""

    functions: dict[str, Callable] = {}

    def reset(self) -> None:
        """Start anew."""


class DFIterDataPipe(IterDataPipe):
    """A stream of data frames."""


class MapDataPipe(_Functional, Dataset):
    """A map that may be built on others."""

    functions: dict[str, Callable] = {}


class functional_datapipe:
    """Class decorator: instances can be made with a method of that name on other pipes."""

    def __init__(self, name: str, enable_df_api_tracing=False) -> None:
        self.name = name
        self.enable_df_api_tracing = enable_df_api_tracing

    def __call__(self, cls):
        for kind in (IterDataPipe, MapDataPipe):
            if isinstance(cls, type) and issubclass(cls, kind):
                kind.register_datapipe_as_function(self.name, cls)
                return cls
        raise TypeError("`functional_datapipe` can only decorate IterDataPipe")


class guaranteed_datapipes_determinism:
    """Within the block, pipes marked as non-deterministic raise."""

    def __init__(self) -> None:
        self.before = _state["determinism"]
        _state["determinism"] = True

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc) -> None:
        _state["determinism"] = self.before


class non_deterministic:
    """Class decorator: the order of the pipe's samples may differ from run to run."""

    def __init__(self, arg) -> None:
        self.cls = arg if isinstance(arg, type) else None
        self.test = None if isinstance(arg, type) else arg
        if self.cls is None and not callable(arg):
            raise TypeError(f"{arg} can not be decorated by non_deterministic")

    def __call__(self, *args, **kwargs):
        if self.cls is not None:
            if _state["determinism"]:
                raise TypeError("{} is non-deterministic, but you set 'guaranteed_datapipes_determinism'. You can turn off "
                                "determinism for this DataPipe if that is acceptable for your application".format(
                                    self.cls.__name__))
            return self.cls(*args, **kwargs)
        cls, test = args[0], self.test

        def make(*inner, **named):
            if test(*inner, **named) and _state["determinism"]:
                raise TypeError(f"{cls.__name__} is non-deterministic with the inputs, but you set "
                                "'guaranteed_datapipes_determinism'. You can turn off determinism for this DataPipe if "
                                "that is acceptable for your application")
            return cls(*inner, **named)

        return make


def argument_validation(f):
    """Leaves a function as it is: its annotations are not checked."""
    return f


def runtime_validation(f):
    """Leaves `__iter__` as it is: its annotation is not checked."""
    return f


class runtime_validation_disabled(contextlib.ContextDecorator):
    """A block without checks of annotations at run time."""

    def __init__(self) -> None:
        self.before = _state["validation"]
        _state["validation"] = False

    def __enter__(self) -> "runtime_validation_disabled":
        return self

    def __exit__(self, *exc) -> None:
        _state["validation"] = self.before
