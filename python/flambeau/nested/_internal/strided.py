"""Nested tensors of the strided layout: tensors of one rank, each with sizes of its own."""
from textwrap import indent
from warnings import warn

from ... import _C
from ..._C import Tensor
from .nested_tensor import _to_kind
from .ops import _base_name, _POINTWISE, _writes, registrar

__all__ = ["StridedNestedTensor", "from_list"]

_WARNING = ("The PyTorch API of nested tensors is in prototype stage and will change in the near future. We recommend "
            "specifying layout=torch.jagged when constructing a nested tensor, as this layout receives active development, has "
            "better operator coverage, and works with torch.compile.")
_warned = False
_HANDLERS = {}
_handles = registrar(_HANDLERS)


def from_list(tensors, dtype=None, device=None):
    """A nested tensor with memory of its own, differentiable in the tensors; RuntimeError if their ranks differ."""
    global _warned
    if not _warned:
        _warned = True
        warn(_WARNING, UserWarning, stacklevel=4)
    for i, t in enumerate(tensors):
        if t.dim() != tensors[0].dim():
            raise RuntimeError("All Tensors given to nested_tensor must have the same dimension. Found dimension "
                               f"{t.dim()} for Tensor at index {i} and dimension {tensors[0].dim()} for Tensor at index 0.")
    kind = dtype or (tensors[0].dtype if tensors else _C.get_default_dtype())
    return StridedNestedTensor([_to_kind(t, kind, device) for t in tensors], kind)


def _nested_view_from_buffer(buffer, sizes, strides, storage_offsets):
    """A nested tensor of views of a one-dimensional buffer, by sizes and strides of shape `(B, dims)` and where they start."""
    places = zip(sizes.tolist(), strides.tolist(), storage_offsets.tolist())
    return StridedNestedTensor([buffer.as_strided(*place) for place in places], buffer.dtype)


def _nested_compute_contiguous_strides_offsets(sizes):
    """The strides and starts of parts of these sizes, shape `(B, dims)`, that lie one after the other."""
    strides, starts, total = [], [], 0
    for size in sizes.tolist():
        steps = [1]
        for n in reversed(size):
            steps.append(steps[-1] * n)
        strides.append(steps[-2::-1] if size else [])
        starts.append(total)
        total += steps[-1]
    return _C.tensor(strides, dtype=_C.int64), _C.tensor(starts, dtype=_C.int64)


class StridedNestedTensor(Tensor):
    """`B` tensors of one rank. What differentiates is each of them: this object only holds them."""

    __module__ = "flambeau.nested._internal.strided"
    _stands_for_another = True

    @staticmethod
    def __new__(cls, parts, dtype=None):
        parts = tuple(parts)
        dtype = parts[0].dtype if parts else dtype or _C.get_default_dtype()
        with _C.DisableTorchFunctionSubclass():
            self = _C.empty(0, dtype=dtype, device="meta").as_subclass(cls)
        self._parts, self._kind = parts, dtype
        return self

    def __init__(self, *args, **kwargs):
        pass

    @property
    def shape(self):
        """RuntimeError: there is none."""
        raise RuntimeError("Internal error: NestedTensorImpl doesn't support sizes. Please file an issue.")

    dtype = property(lambda self: self._kind)
    device = property(lambda self: self._parts[0].device if self._parts else _C.device("cpu"))
    layout = property(lambda self: _C.strided)
    is_nested = is_cpu = property(lambda self: True)
    is_cuda = is_meta = is_sparse = is_sparse_csr = is_quantized = is_mkldnn = property(lambda self: False)
    ndim = property(lambda self: self.dim())

    def dim(self):
        return 1 + (self._parts[0].dim() if self._parts else 0)

    def size(self, dim=None):
        """The size of a dim in which all parts agree; RuntimeError for others."""
        if dim is None:
            return self.shape
        d = _dim(self, dim)
        sizes = {p.shape[d - 1] for p in self._parts} if d else {len(self._parts)}
        if len(sizes) != 1:
            raise RuntimeError(f"Given dimension {d} is irregular and does not have a size.")
        return sizes.pop()

    def stride(self, dim=None):
        raise RuntimeError("Internal error: NestedTensorImpl doesn't support strides. Please file an issue.")

    def numel(self):
        return sum(p.numel() for p in self._parts)

    nelement = numel

    def element_size(self):
        return self._kind.itemsize

    def is_contiguous(self, memory_format=None):
        return all(p.is_contiguous() for p in self._parts)

    def is_floating_point(self):
        return self._kind.is_floating_point

    def is_complex(self):
        return self._kind.is_complex

    def values(self):
        """All elements in order, one-dimensional."""
        return _C.cat([p.flatten() for p in self._parts]) if self._parts else _C.empty(0, dtype=self._kind)

    def to_padded_tensor(self, padding, output_size=None):
        """A plain tensor with `padding` around the parts; RuntimeError if `output_size` is too small for them."""
        return _to_padded_tensor(None, self, padding, output_size)

    def _nested_tensor_size(self):
        """The sizes of the parts, int64, shape `(B, dims)`."""
        return _C.tensor([list(p.shape) for p in self._parts], dtype=_C.int64)

    def _nested_tensor_strides(self):
        """The strides that the parts have one after the other in `values()`."""
        return _nested_compute_contiguous_strides_offsets(self._nested_tensor_size())[0]

    def _nested_tensor_storage_offsets(self):
        """Where each part starts in `values()`."""
        return _nested_compute_contiguous_strides_offsets(self._nested_tensor_size())[1]

    # ---- derivatives

    @property
    def requires_grad(self):
        """Whether a gradient is wanted of the parts."""
        return any(p.requires_grad for p in self._parts)

    @requires_grad.setter
    def requires_grad(self, wanted):
        self.requires_grad_(wanted)

    def requires_grad_(self, requires_grad=True):
        for p in self._parts:
            p.requires_grad_(requires_grad)
        return self

    @property
    def grad(self):
        """The gradient of a leaf, nested alike; None before there is one."""
        grads = [p.grad for p in self._parts]
        if not grads or all(g is None for g in grads):
            return None
        return StridedNestedTensor([_C.zeros_like(p) if g is None else g for p, g in zip(self._parts, grads)])

    @grad.setter
    def grad(self, grad):
        for i, p in enumerate(self._parts):
            p.grad = None if grad is None else grad._parts[i]

    is_leaf = property(lambda self: all(p.is_leaf for p in self._parts))
    grad_fn = property(lambda self: next((p.grad_fn for p in self._parts if p.grad_fn is not None), None))

    mT = property(lambda self: self.transpose(-2, -1), doc="The last two dims exchanged.")

    @property
    def data(self):
        """The same memory without history."""
        return self.detach()

    # ---- Python's protocols

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = _base_name(func)
        handler = _HANDLERS.get(name)
        if handler is None:
            raise NotImplementedError(f"Could not run 'aten::{name}' with arguments from the 'NestedTensorCPU' backend.")
        return handler(func, *args, **(kwargs or {}))

    def __repr__(self, *, tensor_contents=None):
        parts = [repr(p.detach().requires_grad_(self.requires_grad)) for p in self._parts]
        text = ",\n".join(indent(p, "  ", lambda line: True) for p in parts)
        history = ""
        if self.grad_fn is not None:
            history = f", grad_fn=<{type(self.grad_fn).__name__}>"
        elif self.requires_grad:
            history = ", requires_grad=True"
        return f"nested_tensor([\n{text}\n]{history})"

    def __format__(self, spec):
        return object.__format__(self, spec)

    def __hash__(self):
        return id(self)

    def __len__(self):
        return len(self._parts)

    def __iter__(self):
        return iter(self._parts)

    def __bool__(self):
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")

    def __getitem__(self, index):
        indices = index if isinstance(index, tuple) else (index,)
        if not isinstance(indices[0], int):
            raise NotImplementedError("Could not run 'aten::slice.Tensor' with arguments from the 'NestedTensorCPU' backend.")
        part = self._parts[indices[0]]
        return part[indices[1:]] if len(indices) > 1 else part

    def item(self):
        raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")

    def tolist(self):
        return [p.tolist() for p in self._parts]

    def numpy(self, *, force=False):
        raise RuntimeError("Internal error: NestedTensorImpl doesn't support sizes. Please file an issue.")

    def __deepcopy__(self, memo):
        from copy import deepcopy

        copied = memo[id(self)] = StridedNestedTensor([deepcopy(p, memo) for p in self._parts], self._kind)
        return copied

    def __reduce_ex__(self, protocol):
        from ..._utils import _rebuild_nested_tensor

        made = (self._nested_tensor_size(), self._nested_tensor_strides(), self._nested_tensor_storage_offsets())
        return _rebuild_nested_tensor, (self.values().detach(), *made)


def _dim(nested, dim):
    rank = nested.dim()
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return dim % rank


def _each(nested, change):
    """A function of each part."""
    return StridedNestedTensor([change(p) for p in nested._parts], nested._kind)


@_handles(*_POINTWISE, "contiguous")
def _pointwise(func, *args, **kwargs):
    nested = next(a for a in (*args, *kwargs.values()) if isinstance(a, StridedNestedTensor))
    values = (*args, *kwargs.values())
    several = [a for a in values if isinstance(a, Tensor) and (isinstance(a, StridedNestedTensor) or a.dim())]
    if not all(isinstance(a, StridedNestedTensor) for a in several):
        mine, other = (("nested" if isinstance(a, StridedNestedTensor) else "non-nested") for a in several[:2])
        raise RuntimeError(f"Expected both self and other to be nested, but got a {mine} self and {other} other")
    for other in several:
        if [p.shape for p in other._parts] != [p.shape for p in nested._parts] and not _writes(func):
            _check_alike(_base_name(func), nested, other)
    results = [func(*(_part(a, i) for a in args), **{key: _part(a, i) for key, a in kwargs.items()})
               for i in range(len(nested._parts))]
    return args[0] if _writes(func) else StridedNestedTensor(results, nested._kind)


def _check_alike(name, one, other):
    if len(one._parts) != len(other._parts) or one.dim() != other.dim():
        raise RuntimeError(f"{name} requires the nested tensors to have as many parts of the same rank, but got "
                           f"{len(one._parts)} of rank {one.dim() - 1} and {len(other._parts)} of rank {other.dim() - 1}")


def _part(value, i):
    return value._parts[i] if isinstance(value, StridedNestedTensor) else value


@_handles("to", "type", "type_as", "float", "double", "half", "bfloat16", "int", "long", "short", "char", "byte", "bool", "cpu")
def _to(func, nested, *args, **kwargs):
    args = [_C.empty(0, dtype=a.dtype) if isinstance(a, StridedNestedTensor) else a for a in args]
    if not isinstance(nested, StridedNestedTensor):
        return func(nested, *args, **kwargs)
    made = [func(p, *args, **kwargs) for p in nested._parts]
    if made and not isinstance(made[0], Tensor):
        return made[0]
    return nested if all(a is b for a, b in zip(made, nested._parts)) else StridedNestedTensor(made, nested._kind)


@_handles("clone")
def _clone(func, nested, memory_format=None):
    return _each(nested, lambda p: p.clone())


@_handles("copy")
def _copy(func, target, source, non_blocking=False):
    if not isinstance(source, StridedNestedTensor) or [p.shape for p in target._parts] != [p.shape for p in source._parts]:
        raise RuntimeError("copy_ only supports tensors that are the same size for Nested implementations")
    for mine, theirs in zip(target._parts, source._parts):
        mine.copy_(theirs)
    return target


@_handles("unbind")
def _unbind(func, nested, dim=0):
    if _dim(nested, dim) != 0:
        raise RuntimeError(f"NestedTensor can only be unbound along dimension 0 got dimension {dim} instead.")
    return nested._parts


@_handles("select")
def _select(func, nested, dim, index):
    d = _dim(nested, dim)
    return _each(nested, lambda p: p.select(d - 1, index)) if d else nested._parts[index]


@_handles("softmax", "log_softmax")
def _softmax(func, nested, dim, _stacklevel=3, dtype=None):
    d = _dim(nested, dim)
    if d == 0:
        raise RuntimeError(f"Cannot apply {_base_name(func)} across nested dimension 0")
    options = {} if dtype is None else {"dtype": dtype}
    return _each(nested, lambda p: func(p, d - 1, **options))


@_handles("sum")
def _sum(func, nested, dim=None, keepdim=False, dtype=None):
    if dim is None:
        raise NotImplementedError("Could not run 'aten::sum' with arguments from the 'NestedTensorCPU' backend.")
    dims = (dim,) if isinstance(dim, int) else dim
    if len(dims) != 1 or _dim(nested, dims[0]) != nested.dim() - 1:
        raise RuntimeError("NestedTensor can only be reduced across the last dimension for now got dimension "
                           f"{dims[0] if len(dims) == 1 else list(dims)} instead.")
    if not keepdim:
        raise RuntimeError("NestedTensor always requires keepdim=True for now.")
    return _each(nested, lambda p: p.sum(-1, keepdim=True, dtype=dtype))


@_handles("transpose", "swapaxes", "swapdims")
def _transpose(func, nested, dim0, dim1):
    a, b = _dim(nested, dim0), _dim(nested, dim1)
    if a == b:
        return nested
    if a == 0 or b == 0:
        raise RuntimeError("Nested tensor dimension 0 cannot be transposed")
    return _each(nested, lambda p: p.transpose(a - 1, b - 1))


@_handles("unsqueeze")
def _unsqueeze(func, nested, dim):
    rank = nested.dim() + 1
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    if dim % rank == 0:
        raise RuntimeError("unsqueeze(): For nested tensors, unsqueezing dimension 0 is not supported at the moment if you "
                           "need this feature, please open an issue on github describing your use case.")
    return _each(nested, lambda p: p.unsqueeze(dim % rank - 1))


@_handles("squeeze")
def _squeeze(func, nested, dim):
    d = _dim(nested, dim)
    if d == 0:
        raise RuntimeError("squeeze(): For nested tensors, squeezing dimension 0 is not supported at the moment if you need "
                           "this feature, please open an issue on github describing your use case.")
    return _each(nested, lambda p: p.squeeze(d - 1))


@_handles("view", "reshape")
def _view(func, nested, *sizes):
    """Each part in another shape: -1 for a dim that is there already keeps the part's own size."""
    name = _base_name(func)
    wanted = list(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else list(sizes)
    if not wanted or wanted[0] != len(nested._parts):
        raise RuntimeError(f"{name}: For now nested {name} cannot change or infer the implicit batch dimension")

    def change(p):
        kept = [p.shape[i] if n == -1 and i < p.dim() else n for i, n in enumerate(wanted[1:])]
        return getattr(p, name)(kept)

    return _each(nested, change)


@_handles("chunk")
def _chunk(func, nested, chunks, dim=0):
    if _dim(nested, dim) != nested.dim() - 1:
        raise RuntimeError("Chunk for nested tensors is currently only supported for the last dimension.")
    if nested.size(-1) % chunks:
        raise RuntimeError("Chunk for nested tensors is only supported for nested tensors with trailing dimension divisible "
                           "by chunks.")
    return tuple(map(StridedNestedTensor, zip(*(p.chunk(chunks, -1) for p in nested._parts))))


@_handles("split", "split_with_sizes")
def _split(func, nested, sizes, dim=0):
    if _dim(nested, dim) != nested.dim() - 1:
        raise RuntimeError("split_with_sizes for nested tensors is currently only supported for the last dimension.")
    return tuple(map(StridedNestedTensor, zip(*(p.split(sizes, -1) for p in nested._parts))))


@_handles("cat", "concat", "concatenate")
def _cat(func, tensors, dim=0):
    if not all(isinstance(t, StridedNestedTensor) for t in tensors):
        raise RuntimeError("cat(): expected all tensors to be nested")
    if _dim(tensors[0], dim) == 0:
        return StridedNestedTensor([p for t in tensors for p in t._parts], tensors[0]._kind)
    d = _dim(tensors[0], dim)
    return StridedNestedTensor([_C.cat(parts, d - 1) for parts in zip(*(t._parts for t in tensors))], tensors[0]._kind)


@_handles("to_padded_tensor", "nested_to_padded_tensor")
def _to_padded_tensor(func, nested, padding, output_size=None):
    """All parts in one tensor, with `padding` around; RuntimeError if `output_size` is too small."""
    if not nested._parts:
        raise RuntimeError("to_padded_tensor: at least one constituent tensor should have non-zero numel")
    sizes = [len(nested._parts), *map(max, zip(*(p.shape for p in nested._parts)))]
    if output_size is not None:
        if len(output_size) != len(sizes):
            raise RuntimeError("Length of output_size does not match NestedTensor dims. Broadcasting is not supported.")
        if any(wanted < least for wanted, least in zip(output_size, sizes)):
            raise RuntimeError("Value in output_size is less than NestedTensor padded size. Truncation is not supported.")
        sizes = list(output_size)
    rows = []
    for p in nested._parts:
        grow = [extra for d in range(p.dim() - 1, -1, -1) for extra in (0, sizes[d + 1] - p.shape[d])]
        rows.append(_C.constant_pad_nd(p, grow, padding))
    rows += [_C.full(sizes[1:], padding, dtype=nested._kind)] * (sizes[0] - len(rows))
    return _C.stack(rows)


@_handles("linear")
def _linear(func, nested, weight, bias=None):
    return _each(nested, lambda p: func(p, weight, bias))


@_handles("layer_norm")
def _layer_norm(func, nested, normalized_shape, weight=None, bias=None, eps=1e-5):
    if weight is None or bias is None:
        raise ValueError("NestedTensor layer_norm requires weight and bias")
    return _each(nested, lambda p: func(p, normalized_shape, weight, bias, eps))


@_handles("embedding")
def _embedding(func, nested, weight, *args, **kwargs):
    return _each(nested, lambda p: func(p, weight, *args, **kwargs))


@_handles("matmul")
def _matmul(func, one, other):
    if not (isinstance(one, StridedNestedTensor) and isinstance(other, StridedNestedTensor)):
        mine, others = (("nested" if isinstance(a, StridedNestedTensor) else "non-nested") for a in (one, other))
        raise RuntimeError(f"Expected both to be nested, but got a {mine} self and {others} other")
    return _products(one, other)


@_handles("bmm")
def _bmm(func, one, other):
    return _products(one, other)


def _products(one, other):
    first, second = (a._parts if isinstance(a, StridedNestedTensor) else a.unbind() for a in (one, other))
    if len(first) != len(second):
        raise RuntimeError(f"matmul: Expected size for the 1st dimension of 2nd input tensor to be: {len(first)} but got: "
                           f"{len(second)}.")
    return StridedNestedTensor([a.matmul(b) for a, b in zip(first, second)])


@_handles("scaled_dot_product_attention")
def _attention(func, query, key, value, *args, **kwargs):
    if not all(isinstance(t, StridedNestedTensor) for t in (query, key, value)):
        raise RuntimeError("scaled_dot_product_attention: Expected query, key and value to be nested")
    three = zip(query._parts, key._parts, value._parts)
    return StridedNestedTensor([func(q, k, v, *args, **kwargs) for q, k, v in three])


@_handles("backward")
def _backward(func, nested, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    if gradient is None:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    from ...autograd import backward

    backward(list(nested._parts), list(gradient._parts), retain_graph, create_graph, inputs)
