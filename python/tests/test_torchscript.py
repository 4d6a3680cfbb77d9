"""TorchScript archives made by PyTorch (data/torchscript/make.py): what they compute, how they are written back, and that
bad ones are refused."""

import copy
import enum
import io
import json
import math
import pathlib
import types
import warnings
import zipfile

import flambeau as torch
import pytest

DATA = pathlib.Path(__file__).parent / "data" / "torchscript"
EXPECTED = json.loads((DATA / "expected.json").read_text())
# One case per call: the archive, the place among its calls, the method, the arguments and what PyTorch gives.
CALLS = [(name, place, *call) for name, record in EXPECTED.items() for place, call in enumerate(record["calls"])]


def decode(value):
    """A value of expected.json."""
    if isinstance(value, list):
        return [decode(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        dtype = getattr(torch, value["tensor"])
        if dtype.is_complex:
            return torch.view_as_complex(torch.tensor(value["values"]).view(*value["shape"], 2)).to(dtype)
        return torch.tensor(value["values"], dtype=dtype).view(value["shape"])
    if "tuple" in value:
        return tuple(decode(v) for v in value["tuple"])
    if "dict" in value:
        return {decode(k): decode(v) for k, v in value["dict"]}
    return complex(*value["complex"]) if "complex" in value else torch.device(value["device"])


def compare(actual, expected):
    """Equal in types and values, floating point to a few roundings."""
    if isinstance(expected, torch.Tensor):
        assert isinstance(actual, torch.Tensor)
        torch.testing.assert_close(actual.detach(), expected, rtol=1.3e-6, atol=2e-6)
    elif isinstance(expected, (list, tuple)):
        assert isinstance(actual, type(expected)) and len(actual) == len(expected)
        for a, b in zip(actual, expected):
            compare(a, b)
    elif isinstance(expected, dict):
        assert list(actual) == list(expected)
        for key in expected:
            compare(actual[key], expected[key])
    else:
        assert type(actual) is type(expected) and actual == expected


def load(name, **kwargs):
    return torch.jit.load(str(DATA / f"{name}.pt"), **kwargs)


def run(module, method, args, expected):
    """Calls a method and compares with a record."""
    if isinstance(expected, dict) and "error" in expected:
        kind = torch.jit.Error if expected["error"] == "Error" else RuntimeError
        with pytest.raises(kind) as caught:
            getattr(module, method)(*decode(args))
        text = str(caught.value).strip()
        if "Declaration:" in expected["text"]:
            assert text == expected["text"]
        else:
            assert text.startswith("The following operation failed in the TorchScript interpreter.")
            assert text.split("\n")[-1] == expected["text"]
    else:
        compare(getattr(module, method)(*decode(args)), decode(expected))


@pytest.mark.parametrize("name", EXPECTED)
def test_module(name):
    module = load(name)
    assert list(module.state_dict()) == EXPECTED[name]["state"]
    assert [n for n, _ in module.named_modules()] == EXPECTED[name]["modules"]
    assert isinstance(module, torch.nn.Module) and isinstance(module, torch.jit.ScriptModule)
    for method, args, expected in EXPECTED[name]["calls"]:
        run(module, method, args, expected)


@pytest.mark.parametrize("name", EXPECTED)
def test_written_back(name):
    """An archive that is saved computes the same, with the tensors as they are now."""
    module, file = load(name), io.BytesIO()
    for parameter in module.parameters():
        parameter.data.mul_(2)
    torch.jit.save(module, file, {"note": "text"})
    extra = {"note": "", "other": ""}
    again = torch.jit.load(io.BytesIO(file.getvalue()), _extra_files=extra)
    assert extra == {"note": b"text", "other": b""}
    assert list(again.state_dict()) == list(module.state_dict())
    for a, b in zip(again.state_dict().values(), module.state_dict().values()):
        assert a.dtype == b.dtype and a.stride() == b.stride() and torch.equal(a, b)
    assert [p.requires_grad for p in again.parameters()] == [p.requires_grad for p in module.parameters()]
    for parameter in again.parameters():
        parameter.data.div_(2)
    if name != "state":  # its __getstate__ doubles
        for method, args, expected in EXPECTED[name]["calls"]:
            run(again, method, args, expected)


def test_as_a_module():
    module = load("convolutional")
    assert repr(module) == (
        "RecursiveScriptModule(\n  original_name=Convolutional\n  (conv): RecursiveScriptModule(original_name=Conv2d)\n"
        "  (norm): RecursiveScriptModule(original_name=BatchNorm2d)\n"
        "  (linear): RecursiveScriptModule(original_name=Linear)\n"
        "  (dropout): RecursiveScriptModule(original_name=Dropout)\n)"
    )
    assert not module.training and not module.norm.training
    module.train()
    assert module.training and module.norm.training
    before = module.norm.running_mean.clone()
    module(torch.randn(4, 1, 8, 8)).sum().backward()
    assert module.linear.weight.grad is not None and not torch.equal(before, module.norm.running_mean)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    optimizer.step()
    optimizer.zero_grad()
    assert module.double().conv.weight.dtype is torch.float64 and module.norm.running_mean.dtype is torch.float64
    assert module.eval()(torch.zeros(1, 1, 8, 8, dtype=torch.float64)).dtype is torch.float64
    state = load("convolutional").state_dict()
    assert str(module.float().load_state_dict(state)) == "<All keys matched successfully>"
    with pytest.raises(RuntimeError, match=r"Error\(s\) in loading state_dict for RecursiveScriptModule:\n\tMissing key"):
        module.load_state_dict({})
    other = copy.deepcopy(module)
    assert other.conv.weight is not module.conv.weight and torch.equal(other.conv.weight, module.conv.weight)
    assert load("convolutional", map_location="meta").conv.weight.is_meta
    assert torch.jit.script(module) is module


def test_attributes():
    module = load("control")
    assert module.sizes == [1, 2, 3] and module.scale == 2.5 and module.offset is None
    module.sizes.append(4)  # a copy
    assert module.sizes == [1, 2, 3]
    module.sizes, module.offset, module.note = [5], 3, "mine"
    assert module.sizes == [5] and module.offset == 3 and module.note == "mine"
    with pytest.raises(RuntimeError, match="Could not cast attribute 'count' to type int"):
        module.count = "x"
    with pytest.raises(RuntimeError, match="Can't set constant 'scale' which has value:2.5"):
        module.scale = 1.0
    with pytest.raises(AttributeError, match="'RecursiveScriptModule' object has no attribute 'nothing'"):
        module.nothing
    with pytest.raises(RuntimeError, match="Cannot re-assign modules in a ScriptModule with non-scripted module"):
        module.layers = torch.nn.Linear(1, 1)
    with pytest.raises(RuntimeError, match="Can't add a new parameter after ScriptModule construction"):
        module.register_buffer("new", torch.ones(1))
    with pytest.raises(RuntimeError, match="register_forward_hook is not supported on ScriptModules"):
        module.register_forward_hook(print)
    assert not hasattr(module.layers, "forward") and hasattr(module, "forward")
    assert len(module.layers) == 3 and "p" in module.by_name and len(list(module.layers)) == 3
    assert str(module.point.schema) == ("point(__torch__.Control self, __torch__.Point p, int? scale=None) -> "
                                        "((__torch__.Point, int))")
    result, _ = module.point((torch.ones(2), 3))
    assert result.y == 6 and result._fields == ("x", "y") and repr(result) == "Point(x=tensor([2., 2.]), y=6)"
    values = load("values")
    assert values.w is values.tied and len(list(values.parameters())) == 1
    box = load("classes").box
    assert box.high == 2.0 and box.width == 1.0 and len(box) == 0
    box.high = 5
    assert box.width == 4.0


def test_code():
    module = load("hooks")
    assert module.inner.linear.code == (
        "def forward(self,\n    input: Tensor) -> Tensor:\n  weight = self.weight\n  bias = self.bias\n"
        "  return torch.linear(input, weight, bias)\n"
    )
    assert load("control").forward.code_with_constants[1]["c0"] == "caf\u00e9 \u4e16\n\t'\"\\"
    with pytest.raises(RuntimeError, match="makes no graph"):
        module.graph


def test_hooks():
    """Hooks run when the module is called, not when its `forward` is."""
    inner, x = load("hooks").inner, torch.ones(2, 2)
    assert torch.equal(inner(x), inner.forward(x * 2) + 8)


def test_where_it_failed():
    with pytest.raises(torch.jit.Error) as caught:
        load("failing")(torch.ones(2), 0)
    whole = hasattr(test_where_it_failed.__code__, "co_positions")  # else Python knows no columns
    mark = "      ~~~~~~~~~~~~~~~~~~~~~~~ <--- HERE\n" if whole else "      " + "~" * 54 + " <--- HERE\n"
    assert str(caught.value) == (
        "The following operation failed in the TorchScript interpreter.\n"
        "Traceback of TorchScript, serialized code (most recent call last):\n"
        '  File "code/__torch__.py", line 12, in forward\n'
        "    _1 = uninitialized(bool)\n"
        "    if torch.eq(k, 0):\n"
        '      ops.prim.RaiseException("zero", "builtins.ValueError")\n'
        f"{mark}"
        "      _2, _3 = _1, _0\n"
        "    else:\n\n"
        "builtins.ValueError: zero\n"
    )


# ---- files that are not as they should be ----------------------------------------------------------------------


def archive(name="hooks", drop=(), **changes):
    """An archive with records left out or changed; '__' stands for '/' in names, which end with their kind."""
    file = io.BytesIO()
    with zipfile.ZipFile(DATA / f"{name}.pt") as source, zipfile.ZipFile(file, "w") as target:
        for entry in source.namelist():
            record = entry.partition("/")[2]
            if record not in drop:
                target.writestr(f"{name}/{record}", changes.get(record, source.read(entry)))
    return io.BytesIO(file.getvalue())


def test_bad_files(tmp_path):
    with pytest.raises(ValueError, match="The provided filename nowhere.pt does not exist"):
        torch.jit.load("nowhere.pt")
    with pytest.raises(ValueError, match="is a directory"):
        torch.jit.load(tmp_path)
    with pytest.raises(AttributeError, match="'int' object has no attribute 'read'"):
        torch.jit.load(3)
    with pytest.raises(RuntimeError, match="failed finding central directory"):
        torch.jit.load(io.BytesIO(b"junk" * 20))
    torch.save({"a": torch.ones(2)}, tmp_path / "plain.pt")
    with pytest.raises(RuntimeError, match="PytorchStreamReader failed locating file constants.pkl: file not found"):
        torch.jit.load(tmp_path / "plain.pt")
    with pytest.raises(RuntimeError, match="Cannot use ``weights_only=True`` with TorchScript archives"):
        torch.load(DATA / "hooks.pt")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert isinstance(torch.load(DATA / "hooks.pt", weights_only=False), torch.jit.ScriptModule)
    assert "dispatching to 'torch.jit.load'" in str(caught[0].message)
    with pytest.raises(ValueError, match="map_location should be either None, string or torch.device, but got type"):
        load("hooks", map_location={"cpu": "cpu"})
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        load("hooks", map_location="cuda:99")
    whole = (DATA / "hooks.pt").read_bytes()
    for end in range(0, len(whole), 97):
        with pytest.raises(RuntimeError):
            torch.jit.load(io.BytesIO(whole[:end]))


@pytest.mark.parametrize("record, message", [
    ("data.pkl", "failed locating file data.pkl: file not found"),
    ("constants.pkl", "failed locating file constants.pkl: file not found"),
    ("version", r'Expected hasRecord\("version"\) to be true'),
    ("code/__torch__.py", "Unknown type name '__torch__.Outer'"),
    ("data/0", "failed locating file data/0: file not found"),
])  # fmt: skip
def test_missing_records(record, message):
    with pytest.raises(RuntimeError, match=message):
        torch.jit.load(archive(drop=[record]))


@pytest.mark.parametrize("version, message", [
    (b"99\n", "version 99, but the maximum supported version for reading is 10"),
    (b"0\n", "version 0, but the minimum supported version for reading is 1"),
    (b"x\n", "Couldn't parse the version x"),
])  # fmt: skip
def test_versions(version, message):
    with pytest.raises(RuntimeError, match=message):
        torch.jit.load(archive(version=version))


@pytest.mark.parametrize("pickled", [
    b"", b"\x80\x02junk", b"\x80\x02c__torch__\nOuter\n.", b"\x80\x02c__torch__\nOuter\n)\x81K\x01b.",
    b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.", b"\x80\x02cbuiltins\neval\nX\x01\x00\x00\x001\x85R.",
    b"\x80\x02c__torch__\nNone\n.", b"\x80\x02ccollections\nOrderedDict\n)R.", b"\x80\x02(((", b"\x80\x02h\x05.",
    b"\x80\x02c__torch__\nOuter\n)\x81}(X\x05\x00\x00\x00innerc__torch__\nOuter\nub.",
    b"\x80\x02c__torch__\nOuter\n)\x81}(X\x05\x00\x00\x00innerctorch._utils\n_rebuild_tensor_v2\nub.",
    b"\x80\x02c__torch__.torch.classes.quantized\nLinearPackedParamsBase\n)\x81.",
])  # fmt: skip
def test_bad_pickles(pickled):
    with pytest.raises(RuntimeError):
        torch.jit.load(archive(**{"data.pkl": pickled}))


def forward(*lines, head=""):
    """An archive whose module has this body of `forward(self, x: Tensor) -> Tensor`."""
    body = "\n".join("    " + line for line in lines)
    source = (f"{head}class Placeholder(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n"
              f"  def forward(self: __torch__.Placeholder,\n    x: Tensor) -> Tensor:\n{body}\n")
    pickled = b"\x80\x02c__torch__\nPlaceholder\n)\x81}(X\x08\x00\x00\x00training\x89ub."
    return archive(**{"code/__torch__.py": source.encode(), "data.pkl": pickled})


REFUSED = [
    "return x.__class__", "return __import__('os')", "return eval('1')", "return open('x')", "import os",
    "from os import path", "return getattr(x, 'a' + 'b')", "return [y for y in x]",
    "return lambda: x", "return f'{x.__class__}'", "global x", "del x", "return x if __builtins__ else x",
    "return (yield x)", "return (y := x)", "return print.__self__", "return torch._C", "return torch.ops",
    "return ops.aten", "return getattr(self, '__dict__').__class__", "exec('1')", "return __torch__.Placeholder",
    "return k_1", "return op_aten_add(x, x)", "return get(x, '__class__')", "return v_x", "return undefined",
    "return invoke(x, 'numpy')", "try:\n      pass\n    except:\n      pass", "class A:\n      pass",
    "async def f():\n      pass", "return x(x)", "return self(x)", "return (torch.add)(*[x, x])",
    "return torch.add(**{'self': x})", "return {**x}", "return fork(x)", "assert x, __file__", "a = b = x",
    "def f(y):\n      return y", "@torch.jit.script\n    def f():\n      pass", "return CONSTANTS.__class__",
    "return CONSTANTS.c0", "return b'x'", "return ...", "return " + ".".join(["x"] * 60), "return " + "-" * 9999 + "1",
    "return " + "(" * 5000, "return " + "+".join(["x"] * 99999), "return x" + "()" * 99999, "return x" + "[0]" * 99999, "return 1 if 1 else " * 5000 + "1", "return unchecked_cast(__torch__.Nothing, x)",
    "return __torch__.Nothing.__new__(__torch__.Nothing)",
]  # fmt: skip


@pytest.mark.parametrize("line", REFUSED)
def test_refused_code(line):
    """Code that is not TorchScript is refused when the archive is read."""
    with pytest.raises(RuntimeError):
        torch.jit.load(forward(line, "return x"))


FAILING = [
    "return torch.from_file('/etc/passwd', False, 10)", "return torch.save(x, '/tmp/never')", "return x.numpy",
    "return (x).numpy()", "return (x).__reduce__()", "return getattr(x, '__class__')", "return getattr(self, '__dict__')",
    "return getattr(self, '_parameters')", "return (self).load_state_dict(x)", "return (self).__init__()",
    "return torch.no_such_operator(x)", "return ops.os.system('ls')", "return ops.prim.exec('1')",
    "return torch.__class__(x)", "return torch.numpy(x)", "return torch.apply_(x, x)", "return torch.__reduce__(x)",
    "self._script_values = x", "self.new = x", "x.data = x", "return torch.format('{}{}', x)",
    "return torch.join(',', self)", "return torch.append(self, x)", "return torch.items(self)", "return x['a']",
    "return [1][5]", "return self['a']", "a, b = [1]", "return ops.load_library.x()",
    "return ops.__class__.mro()", "return ops.loaded_libraries.clear()", "return ops.import_module.__call__('os')",
    "return (self).forward(x)", "with x:\n      pass", "return torch.wait(x)",
]  # fmt: skip


@pytest.mark.parametrize("line", FAILING)
def test_failing_code(line):
    """What reaches for more than TorchScript has fails when it runs, with a RuntimeError."""
    module = torch.jit.load(forward(line, "return x"))
    with pytest.raises(RuntimeError, match="The following operation failed in the TorchScript interpreter"):
        module(torch.ones(2))


def test_bad_classes():
    for head in ("class A(os.system):\n  pass\n", "class A(Enum):\n  __init__ = 1\n", "class A(Enum):\n  mro = 1\n",
                 "print(1)\n", "x = 1\n", "class A(Module):\n  print(1)\n", "@decorator\nclass A(Module):\n  pass\n"):
        with pytest.raises(RuntimeError):
            torch.jit.load(forward("y = __torch__.A.__new__(__torch__.A)", "return x", head=head))
    assert torch.equal(torch.jit.load(forward("return x", head="import os\n"))(torch.ones(2)), torch.ones(2))


def test_former_versions():
    """Whole numbers were divided to whole numbers before version 4, and filled tensors of floats before version 5."""
    for version, quotient, filled in ((3, torch.int64, torch.float32), (4, torch.float32, torch.float32),
                                      (5, torch.float32, torch.int64)):
        lines = ["y = torch.full([2], 7)", "return torch.add(torch.div(x, 2), torch.to(y, ops.prim.dtype(y)))"]
        with zipfile.ZipFile(forward(*lines)) as z:
            records = {n.partition("/")[2]: z.read(n) for n in z.namelist()}
        records["version"] = b"%d\n" % version
        result = torch.jit.load(archive(**records))(torch.tensor([7, -7]))
        assert result.dtype is (torch.float32 if torch.float32 in (quotient, filled) else torch.int64)
        assert math.isclose(result[0].item(), 10 if version == 3 else 10.5)


def test_registered_operators():
    """Operators that the program registers are found."""
    line = "return ops.testing_archives.twice(x)"
    with pytest.raises(RuntimeError, match="Unknown builtin op: testing_archives::twice"):
        torch.jit.load(forward(line))(torch.ones(2))

    @torch.library.custom_op("testing_archives::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    assert torch.jit.load(forward(line))(torch.ones(2)).sum() == 4


def test_text_is_bytes():
    """Lengths and places in strings count bytes of UTF-8."""
    lines = ["a = 'h\\303\\251llo'", "b = [torch.len(a), torch.find(a, 'l'), torch.len(a[1]), torch.len(torch.slice(a, 3))]",
             "c = torch.add(torch.slice(a, 0, 1), torch.slice(a, 3))", "return torch.add(x, torch.len(c))"]
    module = torch.jit.load(forward(*lines[:2], "return torch.tensor(b)"))
    assert module(torch.ones(1)).tolist() == [6, 3, 1, 3]
    assert torch.jit.load(forward(*lines))(torch.zeros(1)).item() == 4


def test_nothing_to_save():
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'save_to_buffer'"):
        torch.jit.save(torch.nn.Linear(2, 2), io.BytesIO())
    with pytest.raises(RuntimeError, match="Parent directory .* does not exist"):
        load("hooks").save("/nowhere/at/all.pt")


# ---- scripting and tracing, which run eagerly -------------------------------------------------------------------


def double(a, b: int = 2):
    """Doubles."""
    return a * b


def test_functions_run_eagerly():
    scripted, x = torch.jit.script(double), torch.ones(2)
    assert isinstance(scripted, torch.jit.ScriptFunction) and torch.equal(scripted(x), x * 2)
    assert (scripted.name, scripted.__doc__) == ("double", "Doubles.") and "return a * b" in scripted.code
    with pytest.raises(RuntimeError, match="has no graph"):
        scripted.graph
    with pytest.raises(TypeError, match="<class 'int'> is a built-in class"):
        torch.jit.script(3)
    with pytest.raises(RuntimeError, match="inherits from nn.Module, pass an instance instead"):
        torch.jit.script(torch.nn.Linear)
    unit = torch.jit.CompilationUnit("def f(x: Optional[int]):\n    return x\n")
    assert unit.f(3) == 3 and [f.name for f in unit.get_functions()] == ["f"] and unit.find_function("g") is None
    assert torch.jit.script_if_tracing(double)(x).sum() == 4


@pytest.mark.parametrize("value, strict, message", [
    (None, True, "The traced function didn't return any values!"), ("x", True, "Only tensors, lists, tuples of tensors"),
    (3, True, "Only tensors, lists, tuples of tensors"), ({"a": torch.ones(1)}, True, "Encountering a dict at the output"),
    ([torch.ones(1)], True, "Encountering a list at the output"), ({"a": torch.ones(1)}, False, None),
    ((torch.ones(1), [torch.ones(1)]), True, None),
])  # fmt: skip
def test_traced_results(value, strict, message):
    if message is None:
        assert torch.jit.trace(lambda x: value, torch.ones(1), strict=strict)(torch.ones(1)) is value
    else:
        with pytest.raises(RuntimeError, match=message):
            torch.jit.trace(lambda x: value, torch.ones(1), strict=strict)


def test_modules_run_eagerly():
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5))
    scripted, x = torch.jit.script(module), torch.ones(1, 2)
    assert isinstance(scripted, torch.jit.ScriptModule) and not isinstance(torch.nn.Linear(1, 1), torch.jit.ScriptModule)
    with pytest.raises(RuntimeError, match="Freezing is currently only implemented for modules in eval mode"):
        torch.jit.freeze(scripted)
    frozen = torch.jit.optimize_for_inference(scripted.eval())
    assert torch.equal(frozen(x), scripted(x)) and not list(frozen.parameters()) and not frozen.state_dict()
    assert all(p.requires_grad for p in scripted.parameters())
    with pytest.raises(RuntimeError, match="Freezing expects a ScriptModule as input"):
        torch.jit.freeze(torch.nn.Linear(1, 1))
    traced = torch.jit.trace(torch.nn.Linear(2, 2), x)
    assert isinstance(traced, torch.jit.ScriptModule) and traced(x).shape == (1, 2)

    class Own(torch.jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(2))
            self.factor = torch.jit.Attribute(1.0, float)

        @torch.jit.script_method
        def forward(self, x):
            return x * self.w * self.factor

    own = Own()
    assert isinstance(own, Own) and isinstance(own, torch.nn.Module) and own(x).sum() == 2
    assert [n for n, _ in own.named_parameters()] == ["w"]


class Scaled(torch.nn.Module):
    """A module whose attributes are of several kinds."""

    def __init__(self):
        super().__init__()
        self.linear, self.act, self.kind = torch.nn.Linear(2, 2), torch.nn.functional.relu, Kind.TWO
        self.register_buffer("scale", torch.full((2,), 2.0))
        self.config = types.SimpleNamespace(more=1)

    def forward(self, x):
        return self.act(self.linear(x)) * self.scale * self.kind.value + self.config.more


class Kind(enum.Enum):
    ONE, TWO = 1, 2


@torch.jit.script
def halved(a):
    return a / 2


def test_eager_archives(tmp_path):
    module, x = torch.jit.trace(Scaled(), torch.ones(1, 2)), torch.randn(3, 2)
    module.save(tmp_path / "m.pt", _extra_files={"note": "text"})
    extra = {"note": ""}
    again = torch.jit.load(tmp_path / "m.pt", _extra_files=extra)
    assert extra == {"note": b"text"} and isinstance(again, torch.jit.ScriptModule)
    assert torch.equal(again(x), module(x)) and again.linear.weight is not module.linear.weight
    assert torch.equal(torch.jit.load(io.BytesIO(again.save_to_buffer()), map_location="cpu")(x), module(x))
    assert torch.jit.load(io.BytesIO(halved.save_to_buffer()))(torch.ones(1)) == 0.5
    with pytest.raises(RuntimeError, match="The module cannot be saved: .*<lambda>"):
        module.act = lambda x: x
        module.save(tmp_path / "m.pt")
    assert torch.equal(torch.jit.load(tmp_path / "m.pt")(x), again(x))  # the old file is whole


@pytest.mark.parametrize("pickled, message", [
    (b"cos\nsystem\nX\x02\x00\x00\x00ls\x85R.", "'os.system' is not something that an archive of modules may hold"),
    (b"ctorch\nload\n.", "'torch.load' is not something"), (b"cshutil\nrmtree\n.", "'shutil.rmtree' is not something"),
    (b"cgone.away\nNet\n.", "an object of 'gone.away.Net', which this program does not have"),
    (b"ctorch.nn\nLinear\nK\x01K\x01\x86R.", "'Linear' cannot be called while an archive is read"),
    (b"K\x01.", "The archive holds no module"),
])  # fmt: skip
def test_refused_in_eager_archives(pickled, message):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, data in (("data.pkl", pickled), ("version", b"3"), ("eager", b"1")):
            file.writestr("archive/" + name, data)
    buffer.seek(0)
    with pytest.raises(RuntimeError, match=message):
        torch.jit.load(buffer)


def test_markers():
    from flambeau._jit_internal import FunctionModifiers, get_torchscript_modifier

    for mark, modifier in ((torch.jit.export, FunctionModifiers.EXPORT), (torch.jit.unused, FunctionModifiers.UNUSED),
                           (torch.jit.ignore, FunctionModifiers.IGNORE),
                           (torch.jit.ignore(drop=True), FunctionModifiers.UNUSED)):
        def function(x):
            return x

        assert mark(function) is function and get_torchscript_modifier(function) == modifier
    with pytest.raises(RuntimeError, match="must be a bool or a function but got 3"):
        torch.jit.ignore(3)
    with pytest.raises(RuntimeError, match="interface must be applied to a class"):
        torch.jit.interface(3)
    assert torch.jit.Attribute(3, int) == (3, int)
    assert torch.jit.set_fusion_strategy([("STATIC", 1)]) == [("STATIC", 2), ("DYNAMIC", 10)]
    assert torch.jit.set_fusion_strategy([("STATIC", 2), ("DYNAMIC", 10)]) == [("STATIC", 1)]
    with pytest.raises(TypeError, match="incompatible function arguments"):
        torch.jit.wait(3)
    assert torch.jit.wait(torch.jit.fork(double, 3)) == 6
