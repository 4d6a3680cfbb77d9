"""One contestant: a process that times calls of one module, asked for through lines of JSON."""

import gc
import importlib
import itertools
import json
import os
import re
import sys
import time
import warnings


def resolve(m, name):
    """The function that a program would call for the operator `name`."""
    for prefix in ("linalg", "special", "fft"):
        if name.startswith(prefix + "_"):
            return getattr(getattr(m, prefix), name[len(prefix) + 1 :])
    if "." not in name:
        for home in (m, m.nn.functional, m.Tensor, m.ops.aten):
            if hasattr(home, name):
                return getattr(home, name)
    at = m
    for part in name.split("."):
        at = getattr(at, part)
    return at


class Makers:
    """The functions that arguments are written with. A seed gives the same numbers in every module."""

    def __init__(self, m, dtype, grad):
        self.m, self.dtype, self.grad = m, getattr(m, dtype), grad
        m.manual_seed(0)

    def leaf(self, t):
        return t.detach().requires_grad_() if self.grad else t

    def x(self, *sizes):
        """Normal numbers."""
        return self.leaf(self.m.randn(sizes or (1024, 1024)).to(self.dtype))

    def u(self, low=0.0, high=1.0, *sizes):
        """Uniform numbers."""
        return self.leaf((self.m.rand(sizes or (1024, 1024)) * (high - low) + low).to(self.dtype))

    def c(self, *sizes):
        """Complex numbers."""
        return self.leaf(self.m.view_as_complex(self.m.randn(sizes + (2,))))

    def i(self, low, high, *sizes):
        """Integers."""
        return self.m.randint(low, high, sizes or (1024, 1024))

    def b(self, *sizes):
        """Booleans."""
        return self.m.rand(sizes or (1024, 1024)) < 0.5

    def spd(self, *sizes):
        """Positive definite matrices."""
        a = self.m.randn(sizes).to(self.dtype)
        return self.leaf(a @ a.mT / sizes[-1] + self.m.eye(sizes[-1], dtype=self.dtype))

    def names(self):
        return {k: getattr(self, k) for k in "m x u c i b spd leaf".split()}


class Case:
    """A call or its backward."""

    def __init__(self, m, function, arguments, dtype, backward):
        names = Makers(m, dtype, backward).names()
        args, kwargs = eval(f"(lambda *args, **kwargs: (args, kwargs))({arguments})", names)
        f = resolve(m, function)
        out = f(*args, **kwargs)
        self.shapes = [[str(t.dtype).rsplit(".")[-1], list(t.shape)] for t in tensors(out)]
        self.run = lambda: f(*args, **kwargs)
        if backward:
            leaves = [t for t in tensors((args, list(kwargs.values()))) if t.requires_grad]
            outs = [t for t in tensors(out) if t.requires_grad]
            if not leaves or not outs:
                raise NotImplementedError("not differentiable")
            ones = [m.ones_like(t) for t in outs]
            self.run = lambda: m.autograd.grad(outs, leaves, ones, retain_graph=True, allow_unused=True)
            self.run()

    def time(self, count, clock):
        """Nanoseconds per call."""
        run = self.run
        start = clock()
        for _ in itertools.repeat(None, count):
            run()
        return (clock() - start) / count


def tensors(value):
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors(v)]
    return [value] if hasattr(value, "requires_grad") else []


def answer(m, case, request, clock):
    if "arguments" in request:
        case[:] = []
        gc.collect()
        case.append(Case(m, **request))
        case[0].time(1, clock)
        return {"shapes": case[0].shapes, "time": case[0].time(1, clock)}
    return {"time": case[0].time(request["count"], clock)}


def main(module, threads):
    warnings.filterwarnings("ignore")
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # What a module prints is not a reply.
    m = importlib.import_module(module)
    m.set_num_threads(threads)
    # One thread's time does not count what other programs took; that of several would hide that they wait.
    clock = time.process_time_ns if threads == 1 else time.perf_counter_ns
    case = []
    print(json.dumps({"version": m.__version__, "schemas": schemas(m)}), file=replies)
    gc.disable()
    for line in sys.stdin:
        try:
            reply = answer(m, case, json.loads(line), clock)
        except Exception as error:  # Whatever it is, it belongs into the table.
            reply = {"error": re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")[:200]}
        print(json.dumps(reply), file=replies)


def schemas(m):
    listed = getattr(m._C, "_function_schemas", None)
    return {name: list(texts) for name, texts in listed().items()} if listed else {}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
