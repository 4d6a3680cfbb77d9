"""Functions written in Python: types of parameters by annotation, by default and by name."""

import ast
import inspect
import keyword
import math

from sources import KNOWN

# Types of parameters by their names where functions do not say; a default of None adds None.
NAMED = {
    **dict.fromkeys(
        "A M anchor attn_mask gradient grid hx in_proj_weight input input1 input2 key_padding_mask log_probs mat memory "
        "memory_key_padding_mask memory_mask negative new_state offsets out_proj_weight per_sample_weights pos_weight "
        "positive running_mean running_var src src_key_padding_mask src_mask target tensor tensor1 tensor2 tgt "
        "tgt_key_padding_mask tgt_mask theta weight window x1 x2".split(),
        "Tensor",
    ),
    **dict.fromkeys(
        "N T_0 T_max T_mult d_model dim_feedforward embed_dim embedding_dim groups hidden_size hop_length ignore_index "
        "in1_features in2_features in_channels in_features input_size kdim last_epoch length n n_classes n_fft nhead "
        "num_channels num_classes num_decoder_layers num_embeddings num_encoder_layers num_features num_groups num_heads "
        "num_layers num_parameters num_replicas out_channels out_features padding_idx q rank seed step_size total_iters "
        "upscale_factor downscale_factor vdim win_length".split(),
        "_int",
    ),
    **dict.fromkeys(
        "align_corners align_to_window allow_unused foreach fused is_causal onesided recompute_scale_factor reduce "
        "retain_graph return_complex size_average validate_args".split(),
        "_bool",
    ),
    **dict.fromkeys(
        "a alpha b beta clip_value dampening div_factor divisor_factor dropout end_factor eps eta_min factor "
        "final_div_factor gain gamma initial_accumulator_value k label_smoothing lambd lower lr_decay margin max_norm max_val "
        "mean "
        "min_val negative_slope norm_type p power sampling_ratio sparsity start_factor std t0 tau threshold timeout "
        "tolerance_change tolerance_grad upper val weight_decay growth_factor backoff_factor".split(),
        "_float",
    ),
    **dict.fromkeys("d dtype from_ to type1 type2".split(), "_dtype"),
    **dict.fromkeys("dilation kernel_size normalized_shape output_padding padding stride".split(), "_int | Sequence[_int]"),
    "lr": "_float | Tensor", "betas": "tuple[_float | Tensor, _float | Tensor]", "momentum": "_float | None",
    "device": "_Device", "memory_format": "_memory_format", "layout": "_layout", "generator": "Generator", "out": "Tensor",
    "name": "str", "prefix": "str", "milestones": "Iterable[_int]",
}  # fmt: skip

# The same within a module or a package, and the home of classes that these name.
NAMED_WITHIN = {
    "nn.modules.conv": {"padding": "str | _int | Sequence[_int]"},
    "nn.modules.loss": {"out_features": "_int | Sequence[_int]"},
    "masked": {"input": "Any"},
    "optim": {
        "params": "ParamsT", "optimizer": "Optimizer", "weight_decay": "_float | Tensor",
        **dict.fromkeys("base_lr base_momentum max_lr max_momentum min_lr".split(), "_float | Sequence[_float]"),
    },
}
HOMES = {"ParamsT": "optim.optimizer", "Optimizer": "optim.optimizer"}

# What functions return whose names begin so.
RETURNS = {"set": "None", "is": "_bool", "are": "_bool", "has": "_bool"}
METHODS = {
    "__init__": "None", "__enter__": "Self", "__exit__": "None", "__len__": "_int", "__iter__": "Iterator[Any]",
    "__contains__": "_bool", "__bool__": "_bool", "extra_repr": "str", "reset_parameters": "None",
    "__init_subclass__": "None", "load_state_dict": "None", "state_dict": "dict[str, Any]", "zero_grad": "None",
}  # fmt: skip
BARE = {
    "dict": "dict[Any, Any]", "list": "list[Any]", "tuple": "tuple[Any, ...]", "set": "set[Any]", "type": "_type[Any]",
    "frozenset": "frozenset[Any]", "Callable": "Callable[..., Any]", "Iterable": "Iterable[Any]",
    "Iterator": "Iterator[Any]", "Sequence": "Sequence[Any]", "Mapping": "Mapping[Any, Any]", "Dataset": "Dataset[Any]",
    "Sampler": "Sampler[Any]", "OrderedDict": "OrderedDict[Any, Any]", "MutableMapping": "MutableMapping[Any, Any]",
    "deque": "deque[Any]", "DataLoader": "DataLoader[Any]",
}  # fmt: skip
_PLAIN = frozenset("str bytes object None True False Exception BaseException".split())
_ALIASED = frozenset("int float bool complex slice".split())


class _Unknown(Exception):
    """An annotation that names something the stubs do not."""


class Scope:
    """The module that a function stands in: what its annotations mean, what modules they need."""

    def __init__(self, variables, refer=None, module=""):
        self.variables, self.refer = variables, refer
        self.named = dict(NAMED)
        for place, names in NAMED_WITHIN.items():
            if f"{module}.".startswith(place + "."):
                self.named.update(names)

    def annotation(self, kind):
        """An annotation as the stubs have it; None if there is none or it is not understood."""
        if kind is inspect.Signature.empty:
            return None
        if not isinstance(kind, str):
            kind = "None" if kind is type(None) or kind is None else inspect.formatannotation(kind)
        try:
            return self._text(ast.parse(kind, mode="eval").body)
        except (SyntaxError, _Unknown):
            return None

    def _text(self, node):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self._text(ast.parse(node.value, mode="eval").body)
        if isinstance(node, ast.Constant):
            return "..." if node.value is ... else repr(node.value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return f"{self._text(node.left)} | {self._text(node.right)}"
        if isinstance(node, ast.List):
            return f"[{', '.join(map(self._text, node.elts))}]"
        if isinstance(node, ast.Subscript):
            items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            head = self._name(node.value, bare=False)
            if head == "Literal":
                return ast.unparse(node)
            inner = ", ".join(map(self._text, items))
            return f"{inner} | None" if head == "Optional" else f"{head}[{inner}]"
        return self._name(node, bare=True)

    def _name(self, node, bare):
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)
        if name in _ALIASED and isinstance(node, ast.Name):
            return "_" + name
        if name in _PLAIN:
            return name
        if name == "Optional":
            return name
        value = self._value(node)
        if isinstance(value, type) and self.refer is not None and value.__module__.partition(".")[0] == "flambeau":
            name = self.refer(value)
            if name is None:
                raise _Unknown
        elif name not in KNOWN and name not in BARE:
            raise _Unknown
        if bare:
            return BARE.get(name, name)
        return "_type" if name == "type" else name

    def _value(self, node):
        if isinstance(node, ast.Name):
            return self.variables.get(node.id)
        return getattr(self._value(node.value), node.attr, None) if isinstance(node, ast.Attribute) else None

    def parameter(self, p):
        """(type, default) of a parameter."""
        has_default = p.default is not p.empty
        literal = has_default and isinstance(p.default, (bool, int, float, str, type(None)))
        default = (repr(p.default) if literal else "...") if has_default else None
        if isinstance(p.default, float) and not math.isfinite(p.default):
            default = "..."
        kind = self.annotation(p.annotation)
        if kind is None and isinstance(p.default, (bool, str)):
            kind = "_bool" if isinstance(p.default, bool) else "str"
        if kind is None and (has_default or len(p.name) > 2):
            kind = self.named.get(p.name)
        if kind is None and isinstance(p.default, (int, float)):
            kind = "_" + type(p.default).__name__
        kind = kind or "Any"
        if has_default and p.default is None and kind != "Any" and "None" not in kind:
            kind += " | None"
        return kind, default

    def function(self, name, function, first=None, returns=None):
        """The lines of a function's stub."""
        try:
            signature = inspect.signature(function)
        except (ValueError, TypeError):
            return [f"def {name}({'self, ' * (first is not None)}*args: Any, **kwargs: Any) -> Any: ..."]
        shown, star, positional_only = [], False, False
        for i, p in enumerate(signature.parameters.values()):
            label = p.name + "_" * keyword.iskeyword(p.name)
            if i == 0 and first is not None and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                shown.append(first)
                continue
            if positional_only and p.kind != p.POSITIONAL_ONLY:
                shown.append("/")
            positional_only = p.kind == p.POSITIONAL_ONLY
            if p.kind == p.KEYWORD_ONLY and not star:
                shown.append("*")
            star = star or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
            kind, default = self.parameter(p)
            mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
            shown.append(f"{mark}{label}: {kind}" + (f" = {default}" if default else ""))
        if positional_only:
            shown.append("/")
        declared = self.annotation(signature.return_annotation)
        if first is not None:
            guess = METHODS.get(name)
        else:
            guess = RETURNS.get(name.split("_")[0])
        kind = guess if name.startswith("__init_") else declared or guess or returns or "Any"
        return [f"def {name}({', '.join(shown)}) -> {kind}: ..."]
