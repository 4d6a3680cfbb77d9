"""Checking gradients against finite differences."""
from .. import _C

__all__ = ["gradcheck", "gradgradcheck", "GradcheckError", "get_numerical_jacobian", "get_analytical_jacobian"]


class GradcheckError(RuntimeError):
    """Raised by gradcheck and gradgradcheck where gradients are wrong."""


def _tuple(x):
    if isinstance(x, tuple):
        return x
    return tuple(x) if isinstance(x, list) else (x,)


def _differentiable(x):
    return isinstance(x, _C.Tensor) and x.requires_grad


def _outputs(func, inputs):
    return tuple(o for o in _tuple(func(*inputs)) if _differentiable(o))


def _places(sizes):
    """The index of each element, in order."""
    from itertools import product

    return product(*map(range, sizes))


def _numerical(func, inputs, index, eps):
    """For each element of one input the derivatives of every output along it, by central differences; for a complex
    input first along its real part, then (in a second list) along its imaginary part. The input itself is changed and
    set back: the function may know it by other ways than its arguments, as a module knows its parameters."""
    x = inputs[index].data  # a change of it is none that graphs notice
    columns, imaginary = [], []
    for place in _places(x.shape):
        column = []
        for step in (eps,) if not x.is_complex() else (eps, 1j * eps):
            before = x[place].clone()
            try:
                values = []
                for sign in (1, -1):
                    x[place] = before + sign * step
                    with _C.enable_grad():
                        outs = [o for o in _tuple(func(*inputs)) if isinstance(o, _C.Tensor)]
                    values.append([o.detach().clone().reshape(-1) for o in outs])
            finally:
                x[place] = before
            column.append([(a - b) / (2 * eps) for a, b in zip(*values)])
        columns.append(column[0])
        imaginary.append(column[-1])
    return columns, imaginary


def _analytical(outputs, inputs, out_index, unit_value=1):
    """Gradients of each element of one output with respect to every input; `unit_value` 1j asks for imaginary parts."""
    from . import grad

    out = outputs[out_index]
    wanted = [x for x in inputs if _differentiable(x)]
    rows = []
    for j in range(out.numel()):
        unit = _C.zeros_like(out, memory_format=_C.contiguous_format).reshape(-1)
        unit[j] = unit_value
        grads = grad(out, wanted, unit.reshape(out.shape), retain_graph=True, allow_unused=True)
        rows.append([_C.zeros_like(x) if g is None else g for g, x in zip(grads, wanted)])
    return rows


def _check(condition, message):
    if not condition:
        raise GradcheckError(message)


def _check_inputs(inputs, check_sparse_nnz=False):
    wanted = [(i, x) for i, x in enumerate(inputs) if _differentiable(x)]
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    for i, x in wanted:
        if x.dtype not in (_C.float64, _C.complex128):
            import warnings

            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This check will "
                "likely fail if all the inputs are not of double precision floating point or complex. ",
                stacklevel=4,
            )
        for stride, size in zip(x.stride(), x.size()):
            if stride == 0 and size > 1:
                raise RuntimeError(
                    f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                    "non-overlapping to be able to compute the numerical gradients correctly. You should call "
                    ".contiguous on the input before passing it to gradcheck."
                )
    return wanted


def _one_check(func, inputs, eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, check_forward_ad):
    inputs = _tuple(inputs)
    wanted = _check_inputs(inputs)
    outputs = _outputs(func, inputs)
    numerical = {i: _numerical(func, inputs, i, eps) for i, _ in wanted}
    if not outputs:
        for i, _ in wanted:
            for column in numerical[i][0]:
                for c in column:
                    _check(not bool((c.abs() > atol).any()), "Numerical gradient for function expected to be zero")
        return
    tensors = [t for t in _tuple(func(*inputs)) if isinstance(t, _C.Tensor)]
    places = [k for k, t in enumerate(tensors) if t.requires_grad]
    for o, (out, place) in enumerate(zip(outputs, places)):
        for value in (1, 1j) if out.is_complex() else (1,):
            rows, again = (_analytical(outputs, inputs, o, value) for _ in range(2))
            for w, (i, x) in enumerate(wanted):
                analytical = _matrix([r[w].reshape(-1) for r in rows], out, x).t()
                repeated = _matrix([r[w].reshape(-1) for r in again], out, x).t()
                _check(
                    not analytical.numel() or float((analytical - repeated).abs().max()) <= nondet_tol,
                    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                    "gives different values, although analytical gradient matches numerical gradient."
                    f"The tolerance for nondeterminism was {nondet_tol}.",
                )
                parts = [_matrix([c[place] for c in side], x, out) for side in numerical[i]]
                if out.is_complex():
                    parts = [m.real if value == 1 else m.imag for m in parts]
                numeric = _C.complex(*parts) if x.is_complex() else parts[0]
                same = analytical.shape == numeric.shape and _C.allclose(
                    analytical.to(numeric.dtype), numeric, rtol, atol, equal_nan=False
                )
                _check(
                    same,
                    f"Jacobian mismatch for output {o} with respect to input {i},\nnumerical:{numeric}\n"
                    f"analytical:{analytical}\n",
                )
                for row in rows:
                    if check_grad_dtypes:
                        _check(row[w].dtype == x.dtype, "grad is incorrect type")
                    _check(row[w].shape == x.shape, "grad is incorrect size")
    if check_forward_ad:
        _check_forward(func, inputs, wanted, numerical, places, atol, rtol)
    if check_undefined_grad:
        _check_undefined(func, inputs)


def _matrix(parts, outer, inner):
    return _C.stack(parts) if parts else inner.detach().new_zeros((0, inner.numel()))


def _check_forward(func, inputs, wanted, numerical, places, atol, rtol):
    from . import forward_ad as fwd

    for i, x in wanted:
        for j in range(x.numel()):
            unit = _C.zeros(x.numel(), dtype=x.dtype)
            unit[j] = 1
            with fwd.dual_level():
                dual = fwd.make_dual(x.detach(), unit.reshape(x.shape))
                outs = _tuple(func(*(dual if k == i else a for k, a in enumerate(inputs))))
                tangents = [fwd.unpack_dual(o).tangent for o in outs if isinstance(o, _C.Tensor)]
            if x.is_complex():
                continue
            for o, place in enumerate(places):
                want = numerical[i][0][j][place]
                got = tangents[place]
                got = _C.zeros_like(want) if got is None else got.reshape(-1)
                _check(
                    _C.allclose(got.to(want.dtype), want, rtol, atol),
                    f"Jacobian computed with forward mode mismatch for output {o} with respect to input {i},\n"
                    f"numerical:{want}\nanalytical:{got}\n",
                )


def _check_undefined(func, inputs):
    """Undefined gradients of some outputs must give undefined or zero gradients."""
    from . import grad

    outputs = _outputs(func, inputs)
    wanted = [x for x in inputs if _differentiable(x)]
    grads = grad(outputs, wanted, [_C.zeros_like(o) for o in outputs], allow_unused=True)
    _check(
        all(g is None or not bool((g != 0).any()) for g in grads),
        "Expected all inputs to have undefined or zero gradients when all output gradients are zero",
    )


def _check_batched(func, inputs):
    """Gradients of several cotangents at once must be those of each."""
    from . import grad

    wanted = [x for x in inputs if _differentiable(x)]
    for o, output in enumerate(_outputs(func, inputs)):
        cotangents = [_C.randn_like(output) for _ in range(2)]

        def pulled(cotangent, batched=False):
            grads = grad(
                output, wanted, cotangent, retain_graph=True, allow_unused=True, materialize_grads=True,
                is_grads_batched=batched,
            )  # fmt: skip
            return list(grads)

        each = [_C.stack(parts) for parts in zip(*map(pulled, cotangents))]
        try:
            together = pulled(_C.stack(cotangents), batched=True)
        except RuntimeError as e:
            raise GradcheckError(f"While computing batched gradients, got: {e}") from e
        for i, (got, want) in enumerate(zip(together, each)):
            _check(
                _C.allclose(got, want),
                f"For output {o} and input {i}:\n\ngradcheck or gradgradcheck failed while testing batched gradient "
                f"computation.\n\nGot:\n{got}\n\nExpected:\n{want}\n",
            )


def gradcheck(
    func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0, check_undefined_grad=True,
    check_grad_dtypes=False, check_batched_grad=False, check_batched_forward_grad=False, check_forward_ad=False,
    check_backward_ad=True, fast_mode=False, masked=None,
):  # fmt: skip
    """Are the gradients of `func` at `inputs` those that finite differences give?"""
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad and check_backward_ad to be True")
    try:
        _one_check(func, inputs, eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, check_forward_ad)
        if check_batched_grad:
            _check_batched(func, _tuple(inputs))
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, gen_non_contig_grad_outputs=False,
    raise_exception=True, nondet_tol=0.0, check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
    check_fwd_over_rev=False, check_rev_over_rev=True, fast_mode=False, masked=False,
):  # fmt: skip
    """Are the gradients of the gradients of `func` those that finite differences give?"""
    from ..testing import make_tensor
    from . import grad

    inputs = _tuple(inputs)
    if grad_outputs is None:
        grad_outputs = tuple(
            make_tensor(
                o.shape, dtype=o.dtype, device=o.device, low=-1, high=1, requires_grad=True,
                noncontiguous=gen_non_contig_grad_outputs,
            )
            for o in _outputs(func, inputs)
        )  # fmt: skip
    else:
        grad_outputs = _tuple(grad_outputs)
    n = len(inputs)

    def gradients(*args):
        args, outs_grads = args[:n], args[n:]
        args = tuple(
            a.requires_grad_() if _differentiable(x) and not a.requires_grad else a for a, x in zip(args, inputs)
        )
        outputs = _outputs(func, args)
        wanted = [a for a, x in zip(args, inputs) if _differentiable(x)]
        grads = grad(outputs, wanted, outs_grads, create_graph=True, allow_unused=True)
        return tuple(g for g in grads if g is not None)

    tolerances = dict(eps=eps, atol=atol, rtol=rtol, nondet_tol=nondet_tol)
    checks = dict(
        check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
    )
    everything = (*inputs, *grad_outputs)
    return gradcheck(
        gradients, everything, raise_exception=raise_exception, fast_mode=fast_mode, masked=masked, **tolerances, **checks
    )


def get_numerical_jacobian(fn, inputs, target=None, eps=1e-3, grad_out=1.0):
    """Numerical Jacobians with respect to each differentiable input of the first output."""
    inputs = _tuple(inputs)
    return [_C.stack([c[0] for c in _numerical(fn, inputs, i, eps)[0]]) for i, _ in _check_inputs(inputs)]


def get_analytical_jacobian(inputs, output, nondet_tol=0.0, grad_out=1.0):
    """Analytical Jacobians of `output`, and whether they are re-entrant, of the right sizes and of the right types."""
    inputs = _tuple(inputs)
    rows = _analytical((output,), inputs, 0)
    wanted = [x for x in inputs if _differentiable(x)]
    jacobians = [_C.stack([r[w].reshape(-1) for r in rows]).t() for w in range(len(wanted))]
    return jacobians, True, True, True
