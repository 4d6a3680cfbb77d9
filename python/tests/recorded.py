"""Expressions with what PyTorch 2.13 gives for them, as text."""
import json
import pathlib
import warnings

import flambeau as torch

DATA = pathlib.Path(__file__).parent / "data"


def load(name):
    """(setup, [(expression, text), ...]) of a file in `data`."""
    recorded = json.loads((DATA / name).read_text())
    return recorded["setup"], [tuple(case) for case in recorded["cases"]]


def evaluate(setup, expression):
    """The `repr` of an expression's value (of R, for statements after a '!'), or its error, in PyTorch's names."""
    space = {"torch": torch}
    exec(setup, space)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if expression.startswith("!"):
                exec(expression[1:], space)
                value = space["R"]
            else:
                value = eval(expression, space)
            text = value if isinstance(value, str) else repr(value)
        except Exception as error:
            text = f"!! {type(error).__name__}: {error}"
    return text.replace("flambeau", "torch")
