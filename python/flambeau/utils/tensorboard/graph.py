"""A model's modules as a graph."""
from __future__ import annotations

import flambeau as _fl

from ._record import BYTES, INT, message


def encode_nodes(nodes) -> bytes:
    """Nodes ``(name, kind, names of inputs)`` as a graph message."""
    encoded = [message((1, BYTES, name), (2, BYTES, kind), (3, BYTES, list(inputs))) for name, kind, inputs in nodes]
    return message((1, BYTES, encoded), (4, BYTES, message((1, INT, 22))))


def module_graph(model, inputs, verbose: bool = False) -> bytes:
    """The leaf modules that an example passes, joined by the tensors that go from one to the next."""
    if isinstance(inputs, _fl.Tensor):
        inputs = (inputs,)
    elif inputs is None:
        inputs = ()
    nodes: list = []
    maker: dict[int, str] = {}
    alive: list = []

    def tensors(value):
        if isinstance(value, _fl.Tensor):
            yield value
        elif isinstance(value, dict):
            for v in value.values():
                yield from tensors(v)
        elif isinstance(value, (list, tuple)):
            for v in value:
                yield from tensors(v)

    for i, tensor in enumerate(tensors(tuple(inputs))):
        nodes.append((f"input/input.{i + 1}", "IO Node", []))
        maker[id(tensor)] = nodes[-1][0]
    root = type(model).__name__
    last = [nodes[-1][0]] if nodes else []
    seen: dict[str, int] = {}
    handles = []

    def watch(name: str, module):
        def hook(module, args, out):
            nonlocal last
            count = seen[name] = seen.get(name, 0) + 1
            full = f"{root}/{name.replace('.', '/')}" + (f"_{count}" if count > 1 else "")
            known = [maker[id(t)] for t in tensors(args) if id(t) in maker]
            nodes.append((full, type(module).__name__, known or last))
            last = [full]
            for t in tensors(out):
                maker[id(t)] = full
                alive.append(t)

        return module.register_forward_hook(hook)

    for name, module in model.named_modules():
        if name and next(module.children(), None) is None:
            handles.append(watch(name, module))
    try:
        with _fl.no_grad():
            out = model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    for i, tensor in enumerate(tensors(out)):
        nodes.append((f"output/output.{i + 1}", "IO Node", [maker.get(id(tensor), last[0] if last else "")]))
    if verbose:
        for node in nodes:
            print(node)
    return encode_nodes(nodes)
