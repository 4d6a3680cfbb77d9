"""`assert_close`: comparison of tensors, numbers and nested containers with useful messages."""
from __future__ import annotations

import cmath
import collections.abc
import math
import sys
from collections.abc import Callable
from typing import Any

import flambeau as _fl

_PRECISIONS = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
               "complex32": (1e-3, 1e-5), "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
               "quint8": (1.3e-6, 1e-5), "quint2x4": (1.3e-6, 1e-5), "quint4x2": (1.3e-6, 1e-5),
               "qint8": (1.3e-6, 1e-5), "qint32": (1.3e-6, 1e-5)}


class _Failure(Exception):
    """A comparison that does not hold, with the place of the failure in the containers."""

    def __init__(self, kind: type[Exception], message: str, place: tuple = ()) -> None:
        super().__init__(message)
        self.kind, self.message, self.place = kind, message, place

    def to_error(self, msg) -> Exception:
        text = self.message
        if self.place:
            text += f"\n\nThe failure occurred for item {''.join(str([item]) for item in self.place)}"
        if callable(msg):
            text = msg(text)
        elif isinstance(msg, str):
            text = msg
        return self.kind(text)


def default_tolerances(*inputs) -> tuple[float, float]:
    """The largest default tolerances of the inputs' types, as ``(rtol, atol)``."""
    found = [_PRECISIONS.get(str(i.dtype if isinstance(i, _fl.Tensor) else i).split(".")[-1], (0.0, 0.0)) for i in inputs]
    return max(r for r, _ in found), max(a for _, a in found)


def _number_dtype(kind: type):
    return {int: _fl.int64, float: _fl.float64, complex: _fl.complex128}[kind]


def _tolerances(types, rtol, atol) -> tuple[float, float]:
    if (rtol is None) != (atol is None):
        raise _Failure(ValueError, "Both 'rtol' and 'atol' must be either specified or omitted, but got no "
                                   f"{'atol' if atol is None else 'rtol'}.")
    return default_tolerances(*types) if rtol is None else (rtol, atol)


def _mismatch_message(what: str, identifier, rtol, atol, extra: str, abs_diff, abs_at, rel_diff, rel_at) -> str:
    equal = rtol == 0 and atol == 0
    if identifier is None:
        identifier = what
    text = f"{identifier} are not {'equal' if equal else 'close'}!\n\n"
    if extra:
        text += extra + "\n"

    def line(kind: str, diff, at, allowed) -> str:
        if at is None:
            out = f"{kind} difference: {diff}"
        else:
            out = f"Greatest {kind.lower()} difference: {diff} at index {at}"
        return out if equal else f"{out} (up to {allowed} allowed)"

    return text + line("Absolute", abs_diff, abs_at, atol) + "\n" + line("Relative", rel_diff, rel_at, rtol)


def _scalar_message(actual, expected, rtol, atol, identifier=None) -> str:
    abs_diff = abs(actual - expected)
    rel_diff = math.inf if expected == 0 else abs_diff / abs(expected)
    return _mismatch_message("Scalars", identifier, rtol, atol, f"Expected {expected} but got {actual}.", abs_diff, None,
                             rel_diff, None)


def _index(flat: int, shape) -> tuple[int, ...]:
    out: list[int] = []
    for size in reversed(shape):
        flat, at = divmod(flat, size)
        out.append(at)
    return tuple(reversed(out))


def _tensor_message(actual, expected, matches, rtol, atol, identifier=None) -> str:
    exact = not actual.dtype.is_floating_point and not actual.dtype.is_complex
    a, b = ((t.to(_fl.int64) if exact else t).flatten() for t in (actual, expected))
    good = matches.flatten()
    absolute = (a - b).abs()
    worst = []
    for difference in (absolute, absolute / b.abs()):
        most, at = difference.masked_fill(good, 0).max(0)
        worst += [most.item(), _index(int(at), matches.shape)]
    total = good.numel()
    wrong = total - int(good.sum())
    share = f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})"
    return _mismatch_message("Tensor-likes", identifier, rtol, atol, share, *worst)


class _Options:
    def __init__(self, **values) -> None:
        self.__dict__.update(values)


class _Pair:
    """Two inputs of kinds that can be compared; `compare` raises `_Failure`."""

    def __init__(self, actual, expected, place, options: _Options) -> None:
        self.actual, self.expected, self.place, self.options = actual, expected, place, options
        if not self.accepts():
            raise _Unsupported

    def accepts(self) -> bool:
        raise NotImplementedError

    def compare(self) -> None:
        raise NotImplementedError

    def fail(self, message: str):
        raise _Failure(AssertionError, message, self.place)


class _Unsupported(Exception):
    pass


class _NonePair(_Pair):
    def accepts(self) -> bool:
        return self.actual is None or self.expected is None

    def compare(self) -> None:
        if not (self.actual is None and self.expected is None):
            self.fail(f"None mismatch: {self.actual} is not {self.expected}")


def _numpy_type(name: str):
    numpy = sys.modules.get("numpy")
    return () if numpy is None else getattr(numpy, name, ())


class _BooleanPair(_Pair):
    def accepts(self) -> bool:
        kinds = (bool, _numpy_type("bool_")) if _numpy_type("bool_") else (bool,)
        return isinstance(self.actual, kinds) and isinstance(self.expected, kinds)

    def compare(self) -> None:
        actual, expected = bool(self.actual), bool(self.expected)
        if actual is not expected:
            self.fail(f"Booleans mismatch: {actual} is not {expected}")


class _NumberPair(_Pair):
    def accepts(self) -> bool:
        kinds: tuple = (int, float, complex)
        if _numpy_type("number"):
            kinds = (*kinds, _numpy_type("number"))
        if not (isinstance(self.actual, kinds) and isinstance(self.expected, kinds)):
            return False
        for value in (self.actual, self.expected):
            if isinstance(value, bool):
                raise _Failure(RuntimeError,
                               f"Originating a NumberPair() at item {''.join(str([i]) for i in self.place)} with\n\n"
                               f"{type(self.actual).__name__}(): {self.actual}\n\nand\n\n"
                               f"{type(self.expected).__name__}(): {self.expected}\n\nresulted in the unexpected exception "
                               "above. If you are a user and see this message during normal operation please file an "
                               "issue at https://github.com/pytorch/pytorch/issues. If you are a developer and working on "
                               "the comparison functions, please except the previous error and raise an expressive "
                               "`ErrorMeta` instead.")
        number = _numpy_type("number")
        if number:
            self.actual = self.actual.item() if isinstance(self.actual, number) else self.actual
            self.expected = self.expected.item() if isinstance(self.expected, number) else self.expected
        kinds_found = []
        for value in (self.actual, self.expected):
            kinds_found.append(_number_dtype(next(k for k in (int, float, complex) if isinstance(value, k))))
        try:
            self.rtol, self.atol = _tolerances(kinds_found, self.options.rtol, self.options.atol)
        except _Failure as failure:
            failure.place = self.place
            raise
        return True

    def compare(self) -> None:
        a, b = self.actual, self.expected
        if self.options.check_dtype and type(a) is not type(b):
            self.fail(f"The (d)types do not match: {type(a)} != {type(b)}.")
        if a == b:
            return
        if self.options.equal_nan and cmath.isnan(a) and cmath.isnan(b):
            return
        difference = abs(a - b)
        if cmath.isfinite(difference) and difference <= self.atol + self.rtol * abs(b):
            return
        self.fail(_scalar_message(a, b, self.rtol, self.atol))


class _TensorPair(_Pair):
    def accepts(self) -> bool:
        a, b = self.actual, self.expected
        if not (isinstance(a, type(b)) or isinstance(b, type(a))):
            return False
        if not self.options.allow_subclasses and type(a) is not type(b):
            return False
        try:
            self.actual, self.expected = self._tensor(a), self._tensor(b)
        except Exception:
            return False
        for t in (self.actual, self.expected):
            if str(t.layout) not in ("torch.strided", "torch.sparse_coo", "torch.sparse_csr", "torch.sparse_csc",
                                     "torch.sparse_bsr", "torch.sparse_bsc", "torch.jagged", "torch._mkldnn"):
                raise _Failure(ValueError, f"Unsupported tensor layout {t.layout}", self.place)
        try:
            self.rtol, self.atol = _tolerances((self.actual, self.expected), self.options.rtol, self.options.atol)
        except _Failure as failure:
            failure.place = self.place
            raise
        return True

    @staticmethod
    def _tensor(value):
        return value if isinstance(value, _fl.Tensor) else _fl.as_tensor(value)

    def compare(self) -> None:
        with _fl.no_grad():
            self._attributes(self.actual, self.expected)
            if any(t.device.type == "meta" for t in (self.actual, self.expected)):
                return
            self._values(*self._equalized(self.actual, self.expected))

    def _attributes(self, a, b) -> None:
        def differ(name: str, x, y) -> None:
            self.fail(f"The values for attribute '{name}' do not match: {x} != {y}.")

        if a.shape != b.shape:
            differ("shape", a.shape, b.shape)
        if a.is_quantized != b.is_quantized:
            differ("is_quantized", a.is_quantized, b.is_quantized)
        if a.layout != b.layout:
            if self.options.check_layout:
                differ("layout", a.layout, b.layout)
        elif a.layout == _fl.strided and self.options.check_stride and a.stride() != b.stride():
            differ("stride()", a.stride(), b.stride())
        if self.options.check_device and a.device != b.device:
            differ("device", a.device, b.device)
        if self.options.check_dtype and a.dtype != b.dtype:
            differ("dtype", a.dtype, b.dtype)

    @staticmethod
    def _equalized(a, b):
        """The same type, device and layout for both."""
        if a.device != b.device:
            a, b = a.cpu(), b.cpu()
        if a.dtype != b.dtype:
            if "float8" in str(a.dtype) or "float8" in str(b.dtype):
                a, b = a.to(_fl.float32), b.to(_fl.float32)
            dtype = _fl.promote_types(a.dtype, b.dtype)
            a, b = a.to(dtype), b.to(dtype)
        if a.layout != b.layout:
            a = a.to_dense() if a.layout != _fl.strided else a
            b = b.to_dense() if b.layout != _fl.strided else b
        return a, b

    def _values(self, a, b) -> None:
        if a.is_quantized:
            a, b = a.dequantize(), b.dequantize()
        layout = str(a.layout)[6:]
        if layout == "sparse_coo":
            if a.is_coalesced() != b.is_coalesced():
                a, b = a.coalesce(), b.coalesce()
            self._parts(a, b, "COO", ("_indices",), "_values", a._nnz(), b._nnz())
        elif layout.startswith("sparse_"):
            rows = layout in ("sparse_csr", "sparse_bsr")
            parts = ("crow_indices", "col_indices") if rows else ("ccol_indices", "row_indices")
            self._parts(a, b, layout[7:].upper(), parts, "values", a._nnz(), b._nnz())
        elif a.is_nested or b.is_nested:
            for x, y in zip(a.unbind(), b.unbind()):
                self._close(x, y, self.rtol, self.atol)
        else:
            self._close(a, b, self.rtol, self.atol)

    def _parts(self, a, b, name: str, indices, values: str, n: int, m: int) -> None:
        if n != m:
            self.fail(f"The number of specified values in sparse {name} tensors does not match: {n} != {m}")
        for part in indices:
            label = f"Sparse {name} {part.lstrip('_')}"
            self._close(getattr(a, part)(), getattr(b, part)(), 0, 0, label)
        self._close(getattr(a, values)(), getattr(b, values)(), self.rtol, self.atol, f"Sparse {name} values")

    def _close(self, a, b, rtol, atol, identifier=None) -> None:
        if "float8" in str(a.dtype) or "float8" in str(b.dtype):
            a, b = a.to(_fl.float32), b.to(_fl.float32)
        matches = _fl.isclose(a, b, rtol=rtol, atol=atol, equal_nan=self.options.equal_nan)
        if _fl.all(matches):
            return
        if a.shape == _fl.Size([]):
            self.fail(_scalar_message(a.item(), b.item(), rtol, atol, identifier))
        self.fail(_tensor_message(a, b, matches, rtol, atol, identifier))


_KINDS = (_NonePair, _BooleanPair, _NumberPair, _TensorPair)


def _originate(actual, expected, place: tuple, options: _Options) -> list[_Pair]:
    """All pairs of leaves of two nested containers."""
    sequence, mapping = collections.abc.Sequence, collections.abc.Mapping
    if (isinstance(actual, sequence) and not isinstance(actual, str)
            and isinstance(expected, sequence) and not isinstance(expected, str)):
        if len(actual) != len(expected):
            raise _Failure(AssertionError, f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", place)
        return [pair for i in range(len(actual)) for pair in _originate(actual[i], expected[i], (*place, i), options)]
    if isinstance(actual, mapping) and isinstance(expected, mapping):
        have, want = set(actual.keys()), set(expected.keys())
        if have != want:
            raise _Failure(AssertionError, "The keys of the mappings do not match:\nMissing keys in the actual mapping: "
                                           f"{sorted(want - have)}\nAdditional keys in the actual mapping: "
                                           f"{sorted(have - want)}", place)
        keys: Any = have
        try:
            keys = sorted(keys)
        except Exception:
            pass
        return [pair for k in keys for pair in _originate(actual[k], expected[k], (*place, k), options)]
    for kind in _KINDS:
        try:
            return [kind(actual, expected, place, options)]
        except _Unsupported:
            continue
    raise _Failure(TypeError, "No comparison pair was able to handle inputs of type "
                              f"{type(actual)} and {type(expected)}.", place)


def assert_close(actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None,
                 atol: float | None = None, equal_nan: bool = False, check_device: bool = True,
                 check_dtype: bool = True, check_layout: bool = True, check_stride: bool = False,
                 msg: str | Callable[[str], str] | None = None) -> None:
    """Raise AssertionError unless ``|actual - expected| <= atol + rtol * |expected|`` everywhere.

    Takes tensors, what `as_tensor` takes, numbers, None, and nested sequences and mappings of these.
    """
    __tracebackhide__ = True
    checks = dict(check_device=check_device, check_dtype=check_dtype, check_layout=check_layout,
                  check_stride=check_stride)
    options = _Options(allow_subclasses=allow_subclasses, rtol=rtol, atol=atol, equal_nan=equal_nan, **checks)
    try:
        pairs = _originate(actual, expected, (), options)
    except _Failure as failure:
        raise failure.to_error(msg if failure.kind is AssertionError else None) from None
    for pair in pairs:
        try:
            pair.compare()
        except _Failure as failure:
            raise failure.to_error(msg) from None


_OLD_PRECISIONS = {"float16": (1e-3, 1e-3), "float32": (1e-4, 1e-5), "float64": (1e-5, 1e-8)}


def assert_allclose(actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None,
                    equal_nan: bool = True, msg: str = "") -> None:
    """The older form of `assert_close`: looser, and blind to types and devices."""
    import warnings

    warnings.warn("`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. "
                  "Please use `torch.testing.assert_close()` instead. You can find detailed upgrade instructions in "
                  "https://github.com/pytorch/pytorch/issues/61844.", FutureWarning, stacklevel=2)
    if not isinstance(actual, _fl.Tensor):
        actual = _fl.tensor(actual)
    if not isinstance(expected, _fl.Tensor):
        expected = _fl.tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        found = [_OLD_PRECISIONS.get(str(t.dtype).split(".")[-1], (0.0, 0.0)) for t in (actual, expected)]
        rtol, atol = max(r for r, _ in found), max(a for _, a in found)
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)
