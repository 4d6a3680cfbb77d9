"""What is timed: a call of about a million elements for every operator of the registry.

Most operators' arguments follow from their schemas by a few rules on the parameters' names and types; `arguments.txt` has
those that need other shapes or values, and further modes. Arguments are source text, so that every contestant makes them
itself, of the same numbers.
"""

import pathlib
import re

TABLE = pathlib.Path(__file__).resolve().with_name("arguments.txt")

# Numbers for functions that are not defined everywhere.
_DOMAINS = {
    "u(0.01, 0.99)": "acos arccos arcsin arctanh asin atanh bernoulli erfinv logit special_erfinv special_logit special_ndtri",
    "u(1.1, 9)": "acosh arccosh mvlgamma special_multigammaln",
    "u(0.1, 9)": "digamma float_power igamma igammac lgamma log log10 log1p log2 logit poisson polygamma pow rsqrt sqrt "
    "special_digamma special_entr special_gammainc special_gammaincc special_gammaln special_log1p special_polygamma special_psi "
    "special_xlog1py special_xlogy xlogy",
    "u(1.5, 9)": "special_zeta",
    "i(1, 100)": "gcd lcm",
    "i(0, 16)": "bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor",
}
_DOMAIN = {name: values for values, names in _DOMAINS.items() for name in names.split()}
# Parameters by name, then by type; the others have defaults.
_NAMED = {
    "mask": "b()", "condition": "b()", "dims": "[0, 1]", "size": "[1024, 1024]", "dim": "1", "shape": "[-1]", "p": "0.5",
    "train": "True", "window_length": "1000000", "steps": "1000000", "n": "2", "start": "0", "dim0": "0", "dim1": "1",
    "axis0": "0", "axis1": "1",
}  # fmt: skip
_TYPED = {"Scalar": "0.5", "float": "0.5", "int": "2", "SymInt": "2", "bool": "False"}
# Not called by programs: parts of other operators, and memory that nobody wrote to.
_INTERNAL = re.compile(
    r"_|.*_(backward|gradient|functional|generator|wide|numpy|nd|between|data)$|(new_)?empty|div_trunc|nll_loss2d|feature_dropout"
    r"|lift_|numpy_T|_?fft_[chr]2|matrix_H|sum_to|native_ch|elu_|log_sigmoid$|cross_entropy_loss|segment_reduce|unique_dim"
    r"|(cauchy|exponential|fill|geometric|index|log_normal|random|uniform|slice)$|max_pool\dd_with"
)


def _table():
    """{operator: {variant: arguments}}; the variant of the plain name is ''."""
    table = {}
    for line in TABLE.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            label, _, text = line.partition("|")
            name, _, variant = label.strip().partition(" ")
            table.setdefault(name, {})[variant.strip()] = text.strip()
    return table


def _parameters(schema):
    """Those that have to be given: (type, name)."""
    inside = schema[schema.index("(") + 1 : schema.rindex(") ->")]
    found = []
    for part in re.split(r",\s*(?![^\[(]*[\])])", inside):
        kind, _, name = part.rpartition(" ")
        if name and name != "*" and "=" not in name:
            found.append((re.sub(r"\([^)]*\)", "", kind), name))
    return found


def _derived(name, schemas):
    """The arguments of a call of an operator, for its schema with the most tensors."""
    usable = [s for s in schemas if "!)" not in s and " out" not in s]
    if not usable:
        return None
    best = max(usable, key=lambda s: sum(kind == "Tensor" for kind, _ in _parameters(s)))
    value = _DOMAIN.get(name, "x()")
    texts = []
    for kind, parameter in _parameters(best):
        if kind == "Tensor":
            texts.append(_NAMED.get(parameter, value))
        elif kind == "Tensor[]":
            texts.append(f"[{value}, {value}]")
        elif parameter in _NAMED:
            texts.append(f"[{_NAMED[parameter]}]" if kind == "int[]" and parameter == "dim" else _NAMED[parameter])
        else:
            texts.append("None" if kind.endswith("?") else _TYPED.get(kind, "None"))
    return ", ".join(texts)


def calls(schemas):
    """[(label, function, arguments)] for the operators whose schemas are given, and what the table adds."""
    found, table = [], _table()
    for name in sorted({*schemas, *table}):
        if name in table:
            texts = table[name]
        elif name.endswith("_") or _INTERNAL.match(name):
            continue
        else:
            texts = {"": _derived(name, schemas[name])}
        for variant, text in texts.items():
            if text not in (None, "-"):
                found.append((f"{name} {variant}".strip(), name, text))
    return found
