"""TorchScript's operators on numbers, strings, lists and dicts: those that take no tensor."""
from __future__ import annotations

import math
import operator

import flambeau as _fl

NUMBERS = frozenset((int, float, complex, bool))
Tensor = _fl.Tensor
BUILTINS: dict = {}
# What a tensor as first argument leaves to the tensor operator of the same name.
OVERLOADED: dict = {}


def builtin(name: str):
    """Registers a function that serves a name for all its arguments."""
    def register(function):
        BUILTINS[name] = function
        return function

    return register


def overloaded(*names: str):
    """Registers a function that serves a name where no argument is a tensor."""
    def register(function):
        for name in names:
            OVERLOADED[name] = function
        return function

    return register


# ---- text of values ----------------------------------------------------------------------------------------


def float_text(value: float) -> str:
    """A float with 17 digits, as TorchScript writes them: ``1.``, ``0.10000000000000001``."""
    text = f"{value:.17g}"
    return text + "." if text.lstrip("-").isdigit() else text


def value_text(value) -> str:
    """A value as ``str`` and ``format`` write it."""
    kind = type(value)
    if kind is str:
        return value
    if kind is float:
        return float_text(value)
    if kind is complex:
        sign = "-" if math.copysign(1.0, value.imag) < 0 else "+"
        return f"{float_text(value.real)}{sign}{float_text(abs(value.imag))}j"
    if kind is list:
        return f"[{', '.join(map(value_text, value))}]"
    if kind is dict:
        return "{" + ", ".join(f"{value_text(k)}: {value_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple):
        return f"({', '.join(map(value_text, value))}{',' if len(value) == 1 else ''})"
    return str(value)


@builtin("format")
def _format(text, *args):
    pieces = text.split("{}")
    if len(pieces) - 1 > len(args):
        raise RuntimeError(f"Too few arguments for format string: {text}")
    if len(pieces) - 1 < len(args):
        args = args[: len(pieces) - 1]
    return pieces[0] + "".join(value_text(a) + p for a, p in zip(args, pieces[1:]))


@builtin("percentFormat")
def _percent_format(text, *args):
    if len(args) == 1 and isinstance(args[0], tuple):
        args = args[0]
    out, at, used = [], 0, 0
    while at < len(text):
        sign = text.find("%", at)
        if sign < 0:
            break
        out.append(text[at:sign])
        end = sign + 1
        while end < len(text) and text[end] in "0123456789.+- #":
            end += 1
        if end == len(text):
            raise RuntimeError("Incomplete format specifier")
        flags, specifier, at = text[sign + 1 : end], text[end], end + 1
        if specifier == "%":
            out.append("%")
            continue
        if used >= len(args):
            raise RuntimeError("Too few arguments for format string")
        value, used = args[used], used + 1
        if specifier in "dieEfFc":
            if type(value) not in ((int, float, bool) if specifier != "c" else (int, str)):
                raise RuntimeError(f"%{specifier} requires a number for formatting, but got "
                                   f"{type(value).__name__}")
            out.append(f"%{flags}{specifier}" % value)
        elif specifier == "s":
            out.append(f"%{flags}s" % value_text(value))
        else:
            raise RuntimeError(f"The specifier %{specifier} is not supported in TorchScript format strings")
    if used < len(args):
        raise RuntimeError("Too many arguments for format string")
    return "".join(out) + text[at:]


# ---- numbers -----------------------------------------------------------------------------------------------


def _nonzero(function):
    def call(a, b):
        try:
            return function(a, b)
        except ZeroDivisionError:
            raise RuntimeError("division by 0") from None

    return call


def _true_divide(a, b):
    try:
        return a / b
    except ZeroDivisionError:
        if type(a) is complex or a == 0 or a != a:
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _floor_divide(a, b):
    if b == 0 and (type(a) is float or type(b) is float):
        return _true_divide(a, float(b))
    return _nonzero(operator.floordiv)(a, b)


def _remainder(a, b):
    if b == 0 and (type(a) is float or type(b) is float):
        return math.nan
    return _nonzero(operator.mod)(a, b)


def _power(a, b):
    if type(a) is complex or type(b) is complex:
        return a**b
    try:
        return math.pow(a, b)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.inf if a == 0 else math.nan


_BINARY = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": _true_divide, "floordiv": _floor_divide,
    "remainder": _remainder, "pow": _power, "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge, "__and__": operator.and_, "__or__": operator.or_, "__xor__": operator.xor,
    "__lshift__": operator.lshift, "__rshift__": operator.rshift, "fmod": math.fmod, "atan2": math.atan2,
    "copysign": math.copysign, "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
}  # fmt: skip
OVERLOADED.update(_BINARY)


@overloaded("add_")
def _extend_in_place(a, b):
    a.extend(b)
    return a


@overloaded("mul_")
def _repeat_in_place(a, n):
    a *= n
    return a


@builtin("divmod")
def _divmod(a, b):
    return _floor_divide(a, b), _remainder(a, b)


@builtin("__round_to_zero_floordiv")
def _divide_to_zero(a, b):
    return int(_nonzero(operator.floordiv)(abs(a), abs(b))) * (1 if (a < 0) == (b < 0) else -1)


@builtin("mathremainder")
def _math_remainder(a, b):
    return math.remainder(a, b)


def _real(function, complex_name=None):
    """A function of real numbers that answers NaN or infinity where Python's raises."""
    def call(x, *rest):
        if type(x) is complex:
            import cmath

            return getattr(cmath, complex_name or function.__name__)(x)
        try:
            return function(x, *rest)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return call


for _name in ("acos acosh asin asinh atan atanh cos cosh exp expm1 sin sinh sqrt tan tanh log10 log1p erf erfc "
              "lgamma degrees radians").split():
    OVERLOADED[_name] = _real(getattr(math, _name))
for _name, _function in (("gamma", math.gamma), ("fabs", math.fabs), ("gcd", math.gcd), ("ldexp", math.ldexp),
                         ("frexp", math.frexp), ("modf", math.modf)):
    OVERLOADED[_name] = _function


@overloaded("log")
def _log(x, base=None):
    if base is not None:
        return _log(x) / _log(base)
    if x == 0 and type(x) is not complex:
        return -math.inf
    return _real(math.log)(x)


@overloaded("neg")
def _neg(a):
    return -a


@overloaded("ceil")
def _ceil(a):
    return math.ceil(a)


@overloaded("floor")
def _floor(a):
    return math.floor(a)


@overloaded("round")
def _round(a):
    return float(round(a))


@overloaded("angle")
def _angle(a):
    import cmath

    return cmath.phase(a)


@overloaded("polar")
def _polar(r, phi):
    import cmath

    return cmath.rect(r, phi)


@builtin("factorial")
def _factorial(n):
    if n < 0:
        raise RuntimeError("factorial() not defined for negative values")
    return math.factorial(n)


OVERLOADED.update({"isnan": math.isnan, "isinf": math.isinf, "isfinite": math.isfinite})


@builtin("__not__")
def _not(a):
    return not a


@builtin("__is__")
def _is(a, b):
    return a is b


@builtin("__isnot__")
def _is_not(a, b):
    return a is not b


@builtin("Bool")
def _bool(a):
    return bool(a)


@builtin("Int")
def _int(a):
    if type(a) is str:
        try:
            return int(a)
        except ValueError:
            raise RuntimeError("stoll") from None
    if type(a) is float and not math.isfinite(a):
        return -(2**63)
    if isinstance(a, Tensor):
        a = a.item()
        return -(2**63) if type(a) is float and not math.isfinite(a) else int(a)
    return a.value if hasattr(a, "value") else int(a)


@builtin("Float")
def _float(a):
    if type(a) is str:
        try:
            return float(a)
        except ValueError:
            raise RuntimeError("stod") from None
    return float(a.item() if isinstance(a, Tensor) else a)


@builtin("Complex")
def _complex(a, b=0):
    a, b = (v.item() if isinstance(v, Tensor) else v for v in (a, b))
    return complex(a, b)


@builtin("str")
def _str(a):
    return value_text(a)


BUILTINS.update({"IntImplicit": _int, "FloatImplicit": _float, "ComplexImplicit": _complex, "chr": chr, "hex": hex,
                 "bin": bin, "oct": oct, "ord": ord})  # fmt: skip


@builtin("ScalarImplicit")
def _scalar(a):
    return a.item() if isinstance(a, Tensor) else a


@builtin("__range_length")
def _range_length(low, high, step):
    if step == 0:
        raise RuntimeError("range() arg 3 must not be zero")
    return len(range(low, high, step))


@builtin("__derive_index")
def _derive_index(index, start, step):
    return start + index * step


# ---- lists, dicts, strings ---------------------------------------------------------------------------------


# A string is bytes of UTF-8: lengths and places count them. A part of a letter is kept as Python keeps bytes in names of
# files.
def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _to_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def index(container, key):
    """``container[key]`` of a list, tuple, dict or string."""
    kind = type(container)
    if kind is dict:
        try:
            return container[key]
        except KeyError:
            raise RuntimeError(f"KeyError: {value_text(key)}") from None
    if kind is list or isinstance(container, tuple):
        try:
            return container[key]
        except IndexError:
            raise RuntimeError("list index out of range") from None
    if kind is str:
        letters = container if container.isascii() else _to_bytes(container)
        if not -len(letters) <= key < len(letters):
            raise RuntimeError(f"string index {key} out of range")
        return letters[key] if letters is container else _to_text(letters[key:][:1])
    raise RuntimeError(f"'{type(container).__name__}' object is not subscriptable")


BUILTINS["__getitem__"] = index


@overloaded("select")
def _select(items, at):
    return index(items, at)


@builtin("_set_item")
def _set_item(container, key, value):
    if type(container) not in (list, dict):
        raise RuntimeError(f"'{type(container).__name__}' object does not support item assignment")
    try:
        container[key] = value
    except IndexError:
        raise RuntimeError("list index out of range") from None
    return container


@builtin("Delete")
def _delete(container, key):
    index(container, key)
    del container[key]


@overloaded("slice")
def _slice(items, start=None, end=None, step=1):
    if step == 0 or step is None:
        raise RuntimeError("slice step cannot be zero")
    if type(items) is str and not items.isascii():
        return _to_text(_to_bytes(items)[start:end:step])
    return items[start:end:step]


@overloaded("len")
def _len(items):
    return len(items) if type(items) is not str or items.isascii() else len(_to_bytes(items))


@overloaded("append")
def _append(items, item):
    items.append(item)
    return items


@overloaded("extend")
def _extend(items, others):
    items.extend(others)


@overloaded("insert")
def _insert(items, at, item):
    items.insert(at, item)


_MISSING = object()


@overloaded("pop")
def _pop(items, at=_MISSING, default=_MISSING):
    if type(items) is dict:
        if at in items:
            return items.pop(at)
        if default is _MISSING:
            raise RuntimeError(f"KeyError: {value_text(at)}")
        return default
    if not items:
        raise RuntimeError("pop from empty list")
    try:
        return items.pop(-1 if at is _MISSING else at)
    except IndexError:
        raise RuntimeError("list index out of range") from None


@overloaded("popitem")
def _pop_item(items):
    if not items:
        raise RuntimeError("popitem(): dictionary is empty")
    key = next(iter(items))
    return key, items.pop(key)


def _position(items, item):
    for place, other in enumerate(items):
        if other is item or _equal(other, item):
            return place
    return -1


def _equal(a, b):
    same = a == b
    return bool(same.all()) if isinstance(same, Tensor) and same.numel() != 1 else bool(same)


@overloaded("remove")
def _remove(items, item):
    place = _position(items, item)
    if place < 0:
        raise RuntimeError("list.remove(x): x not in list")
    del items[place]


@overloaded("index")
def _index_of(items, item, start=0, end=-1):
    if type(items) is str:
        place = _find(items, item, start, end)
        if place < 0:
            raise RuntimeError("ValueError: substring not found")
        return place
    place = _position(items, item)
    if place < 0:
        raise RuntimeError(f"'{value_text(item)}' is not in list")
    return place


@overloaded("count")
def _count(items, item, start=0, end=-1):
    if type(items) is str:
        return _to_bytes(items).count(_to_bytes(item), start, _end(end))
    return sum(_equal(other, item) for other in items)


@overloaded("reverse")
def _reverse(items):
    items.reverse()


@overloaded("sort")
def _sort(items, reverse=False):
    items.sort(reverse=reverse)


@builtin("sorted")
def _sorted(items):
    return sorted(items)


@overloaded("copy")
def _copy(items):
    return items.copy()


@overloaded("clear")
def _clear(items):
    items.clear()


@overloaded("any")
def _any(items):
    return any(items)


@overloaded("all")
def _all(items):
    return all(items)


@overloaded("sum")
def _sum(items):
    return sum(items)


@builtin("list")
def _list(items):
    return list(items)


@builtin("dict")
def _dict(items=()):
    return dict(items)


@builtin("keys")
def _keys(items):
    return list(items)


@overloaded("values")
def _values(items):
    return list(items.values())


@builtin("items")
def _items(items):
    return list(items.items())


@builtin("update")
def _update(items, others):
    items.update(others)


@builtin("get")
def _get(items, key, default=None):
    return items.get(key, default)


@builtin("setdefault")
def _set_default(items, key, default):
    return items.setdefault(key, default)


@builtin("__contains__")
def _contains(items, item):
    if isinstance(items, Tensor):
        return bool((items == item).any())
    if type(items) is list or isinstance(items, tuple):
        return _position(items, item) >= 0
    return item in items


def _end(end):
    return None if end == -1 else end


@builtin("find")
def _find(text, part, start=0, end=-1):
    return _to_bytes(text).find(_to_bytes(part), start, _end(end))


@builtin("rfind")
def _rfind(text, part, start=0, end=-1):
    return _to_bytes(text).rfind(_to_bytes(part), start, _end(end))


@builtin("rindex")
def _rindex(text, part, start=0, end=-1):
    place = _rfind(text, part, start, end)
    if place < 0:
        raise RuntimeError("ValueError: substring not found")
    return place


@builtin("startswith")
def _starts_with(text, part, start=0, end=-1):
    return _to_bytes(text).startswith(_to_bytes(part), start, _end(end))


@builtin("endswith")
def _ends_with(text, part, start=0, end=-1):
    return _to_bytes(text).endswith(_to_bytes(part), start, _end(end))


@overloaded("replace")
def _replace(text, old, new, count=-1):
    return text.replace(old, new, count)


@builtin("join")
def _join(separator, items):
    return separator.join(items)


@overloaded("split")
def _split(text, separator=None, count=-1):
    return text.split(separator, count)


@builtin("rsplit")
def _rsplit(text, separator=" ", count=-1):
    return text.rsplit(separator, count)


@builtin("splitlines")
def _split_lines(text, keepends=False):
    return text.splitlines(keepends)


_SPACE = " \n\t\f\v"


def _text_method(name, *defaults):
    method = getattr(str, name)

    def call(text, *args):
        return method(text, *args, *defaults[len(args):])

    return call


for _name in ("upper lower title capitalize swapcase isupper islower isalpha isdigit isnumeric isalnum isdecimal "
              "isspace istitle isidentifier isprintable partition rpartition zfill casefold").split():
    BUILTINS[_name] = _text_method(_name)
for _name in ("strip", "lstrip", "rstrip"):
    BUILTINS[_name] = _text_method(_name, _SPACE)
for _name in ("center", "ljust", "rjust"):
    BUILTINS[_name] = _text_method(_name)
BUILTINS["expandtabs"] = _text_method("expandtabs", 8)


# ---- the world around --------------------------------------------------------------------------------------


@builtin("warn")
def _warn(message, stacklevel=2):
    import warnings

    warnings.warn(message, stacklevel=3)


@builtin("_unwrap_optional")
def _unwrap(value):
    if value is None:
        raise RuntimeError("Unwrapping null optional")
    return value


@builtin("wait")
def _wait(future):
    return future.wait()


@builtin("Size")
def _size_list(sizes):
    return list(sizes)


@builtin("device")
def _device(text, number=None):
    return _fl.device(text) if number is None else _fl.device(text, number)


@builtin("is_scripting")
def _is_scripting():
    return True


@builtin("is_grad_enabled")
def _is_grad_enabled():
    return _fl.is_grad_enabled()


@builtin("set_grad_enabled")
def _set_grad_enabled(mode):
    _fl._C._set_grad_enabled(mode)


@builtin("manual_seed")
def _manual_seed(seed, *rest):
    if isinstance(seed, _fl.Generator):
        return seed.manual_seed(*rest)
    _fl.manual_seed(seed)


@builtin("seed")
def _seed(generator):
    return generator.seed()


@builtin("Generator")
def _generator(*, device=None, seed=None):
    made = _fl.Generator(device or "cpu")
    return made if seed is None else made.manual_seed(seed)


@builtin("_get_tracing_state")
def _tracing_state():
    return False


@builtin("_infer_size")
def _infer_size(a, b):
    return list(_fl.broadcast_shapes(a, b))


BUILTINS["broadcast_shapes"] = _infer_size
