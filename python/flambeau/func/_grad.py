"""Derivatives of functions, by reverse mode on the tensors underneath; forward mode is reverse mode twice.

An input of a transform becomes a fresh view of the tensor it was, so that nested transforms see only their own paths.
Under vmap, inputs are expanded to all open batches: the gradient of the sum over the batch is each sample's gradient.
"""
import functools

from .. import _C
from ..autograd import grad as _engine_grad
from ..utils._pytree import tree_flatten, tree_map, tree_unflatten
from ._batched import base_of, from_base, is_batched, levels, wrap


#: The inputs of the transforms whose functions run now, the outermost first.
_running = []


class _Inputs:
    """The tensors of some arguments made ready to be differentiated with respect to."""

    def __init__(self, tree):
        leaves, self.spec = tree_flatten(tree)
        self.levels = tuple(levels)
        self.leaves, self.own = [], set()
        #: Leaves of transforms that ran inside: kept, so that nothing else gets their `id`.
        self.inner = []
        seen = []
        for x in leaves:
            if not isinstance(x, _C.Tensor):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
            if not (x.is_floating_point() or x.is_complex()):
                raise RuntimeError("only Tensors of floating point dtype can require gradients")
            base = base_of(x, self.levels)
            with _C.enable_grad():
                if base.requires_grad:
                    base = base.view_as(base)
                else:
                    base = base.detach()
                    if base.dtype.is_floating_point or base.dtype.is_complex:
                        base.requires_grad_()
                        self.own.add(id(base))
                seen.append(base)
        self.leaves = seen

    def __enter__(self):
        _running.append(self)

    def __exit__(self, *error):
        _running.pop()
        if _running:
            _running[-1].inner += [x for x in self.leaves if id(x) in self.own] + self.inner

    def tree(self):
        return tree_unflatten([from_base(x, self.levels) for x in self.leaves], self.spec)

    def reaches_others(self, outputs):
        """Does the graph of the outputs go further than these inputs and those of transforms inside?"""
        own = self.own.union(map(id, self.inner))
        stack = [o.grad_fn for o in outputs if o.grad_fn is not None]
        stops = {x.grad_fn for x in self.leaves if x.grad_fn is not None}
        if stops:
            return True
        seen = set()
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            variable = getattr(node, "variable", None)
            if variable is not None and id(variable) not in own:
                return True
            stack.extend(n for n, _ in node.next_functions if n is not None)
        return any(o.grad_fn is None and o.requires_grad and id(o) not in own for o in outputs)

    def pull(self, outputs, cotangents, create_graph, retain_graph):
        """Gradients of base tensors, zeros where there is no path."""
        pairs = [(o, c) for o, c in zip(outputs, cotangents) if o.requires_grad]
        inputs = [x for x in self.leaves if x.requires_grad]
        if not pairs or not inputs:
            return [_C.zeros_like(x) for x in self.leaves]
        outs, cots = zip(*pairs)
        got = iter(
            _engine_grad(outs, inputs, cots, retain_graph=retain_graph, create_graph=create_graph, allow_unused=True)
        )
        grads = [next(got) if x.requires_grad else None for x in self.leaves]
        return [_C.zeros_like(x) if g is None else g for g, x in zip(grads, self.leaves)]


def _by_levels(run, tensors, known):
    """`run(tensors)` for tensors that may be batched at levels not `known`: one call for each sample of those."""
    numbers = {lv.number for lv in known}
    open_now = [lv for lv in levels if lv.number not in numbers]
    for level in reversed(open_now):
        if any(is_batched(t, level.number) for t in tensors):
            rows = []
            for i in range(level.size):
                picked = [t._value[i] if is_batched(t, level.number) else t for t in tensors]
                rows.append(_by_levels(run, picked, known))
            return [wrap(_C.stack(list(c)), level.number) for c in zip(*rows)]
    return run(tensors)


def _detached(x, keep):
    return x if keep or not isinstance(x, _C.Tensor) else x.detach()


def _select(args, argnums):
    """The chosen arguments, one or a tuple of them."""
    def at(i):
        if not isinstance(i, int):
            raise RuntimeError(f"argnum must be int, got: {type(i)}")
        if not -len(args) <= i < len(args):
            raise RuntimeError(f"Got argnum={i}, but only {len(args)} positional inputs")
        return args[i]

    if isinstance(argnums, int):
        return at(argnums)
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if not argnums:
        raise RuntimeError("argnums must be non-empty")
    if len({i % len(args) for i in argnums if isinstance(i, int)}) != len(argnums):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return tuple(at(i) for i in argnums)


def _replace(args, argnums, values):
    args = list(args)
    for i, v in zip((argnums,) if isinstance(argnums, int) else argnums,
                    (values,) if isinstance(argnums, int) else values):  # fmt: skip
        args[i] = v
    return args


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that gives the gradient of `func`, which gives one number, and its value."""

    @functools.wraps(func, updated=()) if hasattr(func, "__name__") else lambda f: f
    def wrapper(*args, **kwargs):
        inputs = _Inputs(_select(args, argnums))
        with inputs, _C.enable_grad():
            output = func(*_replace(args, argnums, inputs.tree()), **kwargs)
        aux = None
        if has_aux:
            if not (isinstance(output, tuple) and len(output) == 2):
                raise RuntimeError(
                    "grad_and_value(f)(*args): output of function f should be a tuple: (output, aux) if has_aux is True"
                )
            output, aux = output
        if not isinstance(output, _C.Tensor):
            raise RuntimeError(
                f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(output)}"
            )
        if output.dim() != 0:
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
                f"{output.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        if output.is_complex():
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {output.dtype}")
        base = base_of(output, inputs.levels)
        keep = inputs.reaches_others([base])
        grads = inputs.pull([base], [_C.ones_like(base)], create_graph=keep, retain_graph=None)
        grads = tree_unflatten([from_base(g, inputs.levels) for g in grads], inputs.spec)
        value = _detached(output, keep)
        if has_aux:
            return grads, (value, tree_map(lambda x: _detached(x, keep), aux))
        return grads, value

    return wrapper


def grad(func, argnums=0, has_aux=False):
    """A function that gives the gradient of `func`, which gives one number."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func, updated=()) if hasattr(func, "__name__") else lambda f: f
    def wrapper(*args, **kwargs):
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


def _check_outputs(output, what):
    leaves, spec = tree_flatten(output)
    if not leaves:
        raise RuntimeError(f"{what}: Expected f to be a function that has non-empty output (got output = {leaves})")
    for leaf in leaves:
        if not isinstance(leaf, _C.Tensor):
            raise RuntimeError(
                f"{what}: expected f(*primals) to return only tensors, got unsupported type {type(leaf)}"
            )
    return leaves, spec


class _Leaf:
    """A leaf in a message about structures."""

    def __repr__(self):
        return "*"


def vjp(func, *primals, has_aux=False):
    """The value of `func`, and a function from a cotangent of it to cotangents of the primals."""
    inputs = _Inputs(primals)
    with inputs, _C.enable_grad():
        output = func(*inputs.tree())
    aux = None
    if has_aux:
        if not (isinstance(output, tuple) and len(output) == 2):
            raise RuntimeError(
                "vjp(f, *primals): output of function f should be a tuple: (output, aux) if has_aux is True"
            )
        output, aux = output
    leaves, spec = _check_outputs(output, "vjp(f, *primals)")
    for leaf in leaves:
        if not (leaf.is_floating_point() or leaf.is_complex()):
            raise RuntimeError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                f"{leaf.dtype}"
            )
    bases = [base_of(x, inputs.levels) for x in leaves]
    keep = inputs.reaches_others(bases)

    def vjp_fn(cotangents, retain_graph=True, create_graph=None):
        flat, given = tree_flatten(cotangents)
        if given != spec:
            shown = [tree_map(lambda _: _Leaf(), tree) for tree in (cotangents, output)]
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. "
                f"cotangents: {shown[0]}, primal output: {shown[1]}"
            )
        for c in flat:
            if not isinstance(c, _C.Tensor):
                raise TypeError(f"gradients can be either Tensors or None, but got {type(c).__name__}")
        wanted = keep if create_graph is None else create_graph
        wanted = wanted or any(c.requires_grad for c in flat)

        def run(cots):
            cots = [base_of(c, inputs.levels) for c in cots]
            grads = inputs.pull(bases, cots, create_graph=wanted, retain_graph=True)
            return [from_base(g, inputs.levels) for g in grads]

        grads = tree_unflatten(_by_levels(run, flat, inputs.levels), inputs.spec)
        return grads

    value = tree_map(lambda x: _detached(x, keep), output)
    if has_aux:
        return value, vjp_fn, tree_map(lambda x: _detached(x, keep), aux)
    return value, vjp_fn


def linearize(func, *primals):
    """The value of `func` at the primals, and the function that sends tangents through its derivative there."""
    return _linearize(func, primals, "linearize(f, *primals)")


def _linearize(func, primals, what):
    inputs = _Inputs(primals)
    with inputs, _C.enable_grad():
        output = func(*inputs.tree())
    with _C.enable_grad():
        leaves, spec = _check_outputs(output, what)
        bases = [base_of(x, inputs.levels) for x in leaves]
        keep = inputs.reaches_others(bases)
        probes = [_C.zeros_like(b).requires_grad_() for b in bases]
        pulled = inputs.pull(bases, probes, create_graph=True, retain_graph=True)

    def jvp_fn(*tangents):
        flat, given = tree_flatten(tangents)
        if given != inputs.spec:
            raise RuntimeError(
                "Expected the tangents to have the same structure as the primals. "
                f"Got {given} and {inputs.spec}"
            )

        def run(tans):
            tans = [base_of(t, inputs.levels) for t in tans]
            pairs = [(g, t) for g, t in zip(pulled, tans) if g.requires_grad]
            if not pairs:
                return [from_base(_C.zeros_like(b), inputs.levels) for b in bases]
            create = keep or any(t.requires_grad for t in tans)
            outs, cots = zip(*pairs)
            got = _engine_grad(outs, probes, cots, retain_graph=True, create_graph=create, allow_unused=True)
            got = [_C.zeros_like(b) if g is None else g for g, b in zip(got, bases)]
            return [from_base(g, inputs.levels) for g in got]

        return tree_unflatten(_by_levels(run, flat, inputs.levels), spec)

    return tree_map(lambda x: _detached(x, keep), output), jvp_fn


_JVP = "jvp(f, primals, tangents)"


def _check_dual(primals, tangents=None):
    """What forward mode wants of primals, and of the tangents that belong to them."""
    first = tree_flatten(primals)[0]
    for x in first:
        if not isinstance(x, _C.Tensor):
            raise RuntimeError(f"{_JVP}: Expected primals to only contain Tensors, got {type(x)}")
    if not first:
        raise RuntimeError(f"{_JVP}: Expected primals to contain at least one Tensor.")
    second = first if tangents is None else tree_flatten(tangents)[0]
    for x, t in zip(first, second):
        for name, value in (("primal", x), ("tangent", t)):
            if not (value.is_floating_point() or value.is_complex()):
                raise ValueError(f"Expected {name} to be floating point or complex, but got: {value.dtype}")
        if x.shape != t.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
                f"supported. Tensor is of size {list(x.shape)} while the given forward gradient is of size {list(t.shape)}."
            )


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """The value of `func`, and its derivative along the tangents."""
    if not isinstance(primals, tuple):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    if tree_flatten(primals)[1] != tree_flatten(tangents)[1]:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. For example, if "
            "primals is a tuple of 3 tensors, tangents also must be. Got primals with structure "
            f"{tree_flatten(primals)[1]} and tangents with structure {tree_flatten(tangents)[1]}"
        )
    _check_dual(primals, tangents)
    aux = []

    def main(*args):
        output = func(*args)
        if has_aux:
            if not (isinstance(output, tuple) and len(output) == 2):
                raise RuntimeError(
                    "jvp(f, primals, tangents): output of function f should be a tuple: (output, aux) if has_aux is True"
                )
            output, extra = output
            aux.append(extra)
        return output

    value, jvp_fn = _linearize(main, primals, _JVP)
    tangent = jvp_fn(*tangents)
    if has_aux:
        return value, tangent, tree_map(lambda x: _detached(x, False), aux[0])
    return value, tangent


def _basis(flat):
    """Unit vectors of the space of some tensors: (which tensor, a tensor of its shape with one 1)."""
    for i, x in enumerate(flat):
        n = x.numel()
        eye = _C.eye(n, dtype=x.dtype, device=x.device).reshape((n,) + tuple(x.shape))
        for j in range(n):
            yield i, eye[j]


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    """A function that gives the Jacobian of `func`, row by row in reverse mode: output shape + input shape."""
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func, updated=()) if hasattr(func, "__name__") else lambda f: f
    def wrapper(*args, **kwargs):
        chosen = _select(args, argnums)
        result = vjp(lambda *xs: func(*_replace(args, argnums, xs[0]), **kwargs), chosen, has_aux=has_aux)
        output, vjp_fn = result[:2]
        outs, out_spec = tree_flatten(output)
        ins, in_spec = tree_flatten(chosen)
        rows = [[] for _ in outs]
        for i, unit in _basis(outs):
            cots = [unit if k == i else _C.zeros_like(o) for k, o in enumerate(outs)]
            (grads,) = vjp_fn(tree_unflatten(cots, out_spec))
            rows[i].append(tree_flatten(grads)[0])
        jacobians = []
        for out, row in zip(outs, rows):
            columns = [
                _C.stack(list(c)).reshape(tuple(out.shape) + tuple(x.shape)) for c, x in zip(zip(*row), ins)
            ] if row else [x.new_zeros(tuple(out.shape) + tuple(x.shape)) for x in ins]  # fmt: skip
            jacobians.append(tree_unflatten(columns, in_spec))
        jacobian = tree_unflatten(jacobians, out_spec)
        return (jacobian, result[2]) if has_aux else jacobian

    return wrapper


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """A function that gives the Jacobian of `func`, column by column in forward mode: output shape + input shape."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")

    @functools.wraps(func, updated=()) if hasattr(func, "__name__") else lambda f: f
    def wrapper(*args, **kwargs):
        chosen = _select(args, argnums)
        aux = []

        def main(xs):
            output = func(*_replace(args, argnums, xs), **kwargs)
            if has_aux:
                output, extra = output
                aux.append(extra)
            return output

        _check_dual(chosen)
        output, jvp_fn = _linearize(main, (chosen,), _JVP)
        outs, out_spec = tree_flatten(output)
        ins, in_spec = tree_flatten(chosen)
        columns = [[] for _ in ins]
        for i, unit in _basis(ins):
            tans = [unit if k == i else _C.zeros_like(x) for k, x in enumerate(ins)]
            columns[i].append(tree_flatten(jvp_fn(tree_unflatten(tans, in_spec)))[0])
        jacobians = []
        for o, out in enumerate(outs):
            parts = [
                _C.stack([c[o] for c in column], -1).reshape(tuple(out.shape) + tuple(x.shape))
                for column, x in zip(columns, ins)
            ]
            jacobians.append(tree_unflatten(parts, in_spec))
        jacobian = tree_unflatten(jacobians, out_spec)
        return (jacobian, tree_map(lambda x: _detached(x, False), aux[0])) if has_aux else jacobian

    return wrapper


def hessian(func, argnums=0):
    """A function that gives the Hessian of `func`, forward over reverse."""
    return jacfwd(jacrev(func, argnums), argnums)


def functionalize(func, *, remove="mutations"):
    """`func` itself: run eagerly, in-place operators give the results that their pure forms would."""
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are:\n"
            "    remove='mutations': all inplace and out= operators will be removed from the program, and replaced with "
            "their out-of-place equivalents.\n    remove='mutations_and_views': In addition to the above, all aliasing "
            "operators {view} will be replaced with their non-aliasing counterparts, {view}_copy.\n"
        )
    return func
