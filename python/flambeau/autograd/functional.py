"""Jacobians, Hessians and their products with vectors, on top of `grad`."""
from .. import _C

__all__ = ["vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"]


def _as_tuple(inp, arg_name=None, fn_name=None):
    """Values as a tuple; when they have a name, checked to be tensors, and after whether they were a tuple already."""
    was_tuple = isinstance(inp, tuple)
    if arg_name is None and fn_name is None:
        return tuple(inp) if isinstance(inp, (tuple, list)) else (inp,)
    values = inp if was_tuple else (inp,)
    for i, v in enumerate(values):
        if not isinstance(v, _C.Tensor):
            which = f"value at index {i}" if was_tuple else f"given {arg_name}"
            raise TypeError(
                f"The {arg_name} given to {fn_name} must be either a Tensor or a tuple of Tensors but the {which} has type "
                f"{type(v)}."
            )
    return was_tuple, values


def _tuple_postprocess(res, to_unpack):
    """Results as the caller gave inputs: `to_unpack` says whether there was a tuple, or of outputs and of inputs."""
    if not isinstance(to_unpack, tuple):
        return _unwrap(res, to_unpack)
    return _unwrap(tuple(_unwrap(part, to_unpack[1]) for part in res), to_unpack[0])


def _construct_standard_basis_for(tensors, tensor_numels):
    """For each tensor its columns of the identity matrix that has a row for every element of them all."""
    if len(tensors) != len(tensor_numels) or not tensors:
        raise AssertionError("expected as many sizes as tensors, and at least one")
    total, made, start = sum(tensor_numels), [], 0
    for tensor, count in zip(tensors, tensor_numels):
        columns = tensor.new_zeros(total, count)
        columns.diagonal(-start).fill_(1)
        made.append(columns)
        start += count
    return tuple(made)


def _unwrap(values, was_tuple):
    return tuple(values) if was_tuple else values[0]


def _prepare(inputs, create_graph, need_graph=True):
    """Inputs that require gradients: views of the originals if a graph back to them is wanted, else detached."""
    return tuple(
        i.view_as(i) if create_graph and i.requires_grad else i.detach().requires_grad_(need_graph) for i in inputs
    )


def _grad_postprocess(tensors, create_graph):
    """Nested tuples of results without a graph, unless one is wanted."""
    if isinstance(tensors, tuple):
        return tuple(_grad_postprocess(t, create_graph) for t in tensors)
    return tensors if create_graph else tensors.detach()


def _check_v(v, reference, is_v_tuple):
    if len(reference) != len(v):
        if is_v_tuple and len(reference) != 1:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(reference)} but got {len(v)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for i, (a, b) in enumerate(zip(v, reference)):
        if a.size() != b.size():
            where = f"Entry {i} in v has" if is_v_tuple else "v has"
            raise RuntimeError(f"{where} invalid size: should be {b.size()} but got {a.size()}.")


def _given_v(v, reference, arg, fn):
    """v as a tuple of constants, or 1 for a single number."""
    if v is None:
        if len(reference) != 1 or reference[0].nelement() != 1:
            if fn in ("vjp", "vhp", "hvp", "jvp") and arg == "output":
                raise RuntimeError(
                    "The vector v can only be None if the user-provided function returns a single Tensor with a single "
                    "element."
                )
            raise RuntimeError(
                "The vector v can only be None if the input to the user-provided function is a single Tensor with a "
                "single element."
            )
        return tuple(_C.ones_like(r) for r in reference)
    is_tuple, v = _as_tuple(v, "v", fn)
    _check_v(v, reference, is_tuple)
    return v


def _strict_outputs(outputs, fn):
    for i, out in enumerate(outputs):
        if not out.requires_grad:
            raise RuntimeError(
                f"Output {i} of the user-provided function does not require gradients. The outputs must be computed in a "
                f"differentiable manner from the input when running in strict mode."
            )


def _grad(outputs, inputs, grad_outputs=None, create_graph=False, retain_graph=None):
    """Gradients with None for what does not depend; outputs that require no gradient are left out."""
    outputs, inputs = _as_tuple(outputs), _as_tuple(inputs)
    grad_outputs = (None,) * len(outputs) if grad_outputs is None else _as_tuple(grad_outputs)
    pairs = [(o, g) for o, g in zip(outputs, grad_outputs) if o is not None and o.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    from . import grad

    outs, grads = zip(*pairs)
    return grad(outs, inputs, grads, allow_unused=True, create_graph=create_graph, retain_graph=retain_graph)


_NO_HESSIAN = (
    "While computing the hessian, found that the jacobian of the user-provided function with respect to input {} is "
    "independent of the input. This is not allowed in strict mode. You should ensure that your function is twice "
    "differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for example)."
)


def _check_twice_differentiable(jac):
    for i, j in enumerate(jac):
        if not j.requires_grad:
            raise RuntimeError(_NO_HESSIAN.format(i))


def _fill(grads, reference, strict, create_graph, stage):
    """Zeros for missing gradients; in strict mode an error, and also for gradients that cannot be differentiated."""
    filled = []
    for i, (g, ref) in enumerate(zip(grads, reference)):
        if g is None:
            if strict:
                messages = {
                    "back": "The output of the user-provided function is independent of input {}. This is not allowed in "
                    "strict mode.",
                    "back_trick": "The gradient with respect to the input is independent of entry {} in the grad_outputs "
                    "when using the double backward trick to compute forward mode gradients. This is not allowed in "
                    "strict mode.",
                    "double_back": "The jacobian of the user-provided function is independent of input {}. This is not "
                    "allowed in strict mode.",
                    "double_back_trick": "The hessian of the user-provided function is independent of entry {} in the "
                    "grad_jacobian. This is not allowed in strict mode as it prevents from using the double backward "
                    "trick to replace forward mode AD.",
                }
                raise RuntimeError(messages[stage].format(i))
            g = _C.zeros_like(ref)
        elif strict and create_graph and not g.requires_grad:
            if "double" in stage:
                raise RuntimeError(_NO_HESSIAN.format(i))
            raise RuntimeError(
                f"The jacobian of the user-provided function is independent of input {i}. This is not allowed in strict "
                "mode when create_graph=True."
            )
        filled.append(g)
    return tuple(filled)


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """The output of `func`, and v^T J."""
    with _C.enable_grad():
        in_tuple, inputs = _as_tuple(inputs, "inputs", "vjp")
        inputs = _prepare(inputs, create_graph)
        outputs = func(*inputs)
        out_tuple, outputs = _as_tuple(outputs, "outputs of the user-provided function", "vjp")
        if strict:
            _strict_outputs(outputs, "vjp")
        v = _given_v(v, outputs, "output", "vjp")
    with _C.set_grad_enabled(create_graph or _C.is_grad_enabled()):
        grads = _fill(_grad(outputs, inputs, v, create_graph), inputs, strict, create_graph, "back")
    return _grad_postprocess(_unwrap(outputs, out_tuple), create_graph), _grad_postprocess(_unwrap(grads, in_tuple), create_graph)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """The output of `func`, and J v, by differentiating v^T J with respect to v."""
    with _C.enable_grad():
        in_tuple, inputs = _as_tuple(inputs, "inputs", "jvp")
        inputs = _prepare(inputs, create_graph)
        v = _given_v(v, inputs, "input", "jvp")
        outputs = func(*inputs)
        out_tuple, outputs = _as_tuple(outputs, "outputs of the user-provided function", "jvp")
        if strict:
            _strict_outputs(outputs, "jvp")
        probes = tuple(_C.zeros_like(o, requires_grad=True) for o in outputs)
        grads = _fill(_grad(outputs, inputs, probes, create_graph=True), inputs, strict, create_graph, "back")
        result = _grad(grads, probes, v, create_graph) if create_graph else _grad(grads, probes, v)
        result = _fill(result, outputs, strict, create_graph, "back_trick")
    return _grad_postprocess(_unwrap(outputs, out_tuple), create_graph), _grad_postprocess(_unwrap(result, out_tuple), create_graph)


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """The Jacobian of `func`: for outputs of shape O and inputs of shape I, shape O + I (nested in tuples)."""
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
            'than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                "torch.autograd.functional.jacobian: `create_graph=True` and `strategy=\"forward-mode\"` are not "
                "supported together (yet). Please either set `create_graph=False` or `strategy=\"reverse-mode\"`."
            )
        if strict:
            raise RuntimeError(
                'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not supported '
                "together (yet). Please either set `strict=False` or `strategy=\"reverse-mode\"`."
            )
        if not vectorize:
            raise NotImplementedError(
                "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented for "
                "`vectorize=True`."
            )
    elif strict and vectorize:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. Please "
            "either set `strict=False` or `vectorize=False`."
        )
    with _C.enable_grad():
        in_tuple, inputs = _as_tuple(inputs, "inputs", "jacobian")
        inputs = _prepare(inputs, create_graph)
        outputs = func(*inputs)
        out_tuple, outputs = _as_tuple(outputs, "outputs of the user-provided function", "jacobian")
        if strict:
            _strict_outputs(outputs, "jacobian")
        rows = []
        for i, out in enumerate(outputs):
            columns = tuple([] for _ in inputs)
            flat = out.reshape(-1)
            for j in range(out.nelement()):
                grads = _grad(flat[j], inputs, retain_graph=True, create_graph=create_graph)
                for k, (column, g, ref) in enumerate(zip(columns, grads, inputs)):
                    if g is not None:
                        if strict and create_graph and not g.requires_grad:
                            raise RuntimeError(
                                "The jacobian of the user-provided function is independent of input "
                                f"{k}. This is not allowed in strict mode when create_graph=True."
                            )
                        column.append(g)
                    elif strict:
                        raise RuntimeError(
                            f"Output {i} of the user-provided function is independent of input {k}. This is not allowed "
                            "in strict mode."
                        )
                    else:
                        column.append(_C.zeros_like(ref))
            rows.append(
                tuple(
                    (_C.stack(c, dim=0) if c else ref.new_zeros((0,) + ref.shape)).view(out.size() + ref.size())
                    for c, ref in zip(columns, inputs)
                )
            )
    rows = _grad_postprocess(tuple(rows), create_graph)
    rows = tuple(r if in_tuple else r[0] for r in rows)
    return rows if out_tuple else rows[0]


def _single_number(outputs, fn):
    out_tuple, outputs = _as_tuple(outputs, "outputs of the user-provided function", fn)
    if out_tuple or not isinstance(outputs[0], _C.Tensor):
        raise RuntimeError(f"The function given to {fn} should return a single Tensor")
    if outputs[0].nelement() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {fn} should contain a single element")
    return outputs


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """The Hessian of a function that gives a single number: shape I + I (nested in tuples)."""
    in_tuple, inputs = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def scalar(*args):
        out = func(*args)
        is_tuple, values = _as_tuple(out, "outputs of the user-provided function", "hessian")
        if is_tuple or not isinstance(values[0], _C.Tensor):
            raise RuntimeError("The function given to hessian should return a single Tensor")
        if values[0].nelement() != 1:
            raise RuntimeError("The Tensor returned by the function given to hessian should contain a single element")
        return values[0].squeeze()

    def gradient(*args):
        if outer_jacobian_strategy == "forward-mode":
            args = tuple(a if a.requires_grad else a.requires_grad_() for a in args)
        jac = jacobian(scalar, args, create_graph=True)
        if strict:
            _check_twice_differentiable(jac)
        return jac

    result = jacobian(
        gradient, inputs, create_graph=create_graph, strict=strict,
        vectorize=vectorize, strategy=outer_jacobian_strategy,
    )  # fmt: skip
    return result if in_tuple else result[0][0]


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """The output of `func`, and v^T H."""
    with _C.enable_grad():
        in_tuple, inputs = _as_tuple(inputs, "inputs", "vhp")
        inputs = _prepare(inputs, create_graph)
        v = _given_v(v, inputs, "input", "vhp")
        outputs = _single_number(func(*inputs), "vhp")
        if strict:
            _strict_outputs(outputs, "vhp")
        jac = _fill(_grad(outputs, inputs, create_graph=True), inputs, strict, False, "back")
        if strict:
            _check_twice_differentiable(jac)
        result = _fill(_grad(jac, inputs, v, create_graph), inputs, strict, create_graph, "double_back")
    return _grad_postprocess(outputs[0], create_graph), _grad_postprocess(_unwrap(result, in_tuple), create_graph)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """The output of `func`, and H v."""
    with _C.enable_grad():
        in_tuple, inputs = _as_tuple(inputs, "inputs", "hvp")
        inputs = _prepare(inputs, create_graph)
        v = _given_v(v, inputs, "input", "hvp")
        outputs = _single_number(func(*inputs), "hvp")
        if strict:
            _strict_outputs(outputs, "hvp")
        jac = _fill(_grad(outputs, inputs, create_graph=True), inputs, strict, False, "back")
        if strict:
            _check_twice_differentiable(jac)
        probes = tuple(_C.zeros_like(i, requires_grad=True) for i in inputs)
        double = _fill(_grad(jac, inputs, probes, create_graph=True), inputs, strict, create_graph, "double_back")
        result = _fill(_grad(double, probes, v, create_graph), inputs, strict, create_graph, "double_back_trick")
    return _grad_postprocess(outputs[0], create_graph), _grad_postprocess(_unwrap(result, in_tuple), create_graph)
