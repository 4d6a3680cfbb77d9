"""Finding a small graph in a larger one, and putting another in its place."""
import copy
from collections import namedtuple
from dataclasses import dataclass, field

from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, _copy_attr
from .node import Node, map_arg

__all__ = ["Match", "replace_pattern", "replace_pattern_with_filters", "ReplacedPatterns"]

# `anchor` is the pattern's last node as it was found; `nodes_map` gives for every node of the pattern what was found.
Match = namedtuple("Match", ["anchor", "nodes_map"])


@dataclass
class ReplacedPatterns:
    """The same, with the nodes that were put in its place."""

    anchor: Node
    nodes_map: dict
    replacements: list


@dataclass
class InternalMatch:
    """A place where the pattern was found. Filters get it."""

    anchors: list
    nodes_map: dict = field(default_factory=dict)
    placeholder_nodes: list = field(default_factory=list)
    returning_nodes: list = field(default_factory=list)
    name_node_map: dict = field(default_factory=dict)


class _Matcher:
    """Tries one pattern at nodes of a graph."""

    def __init__(self, pattern, ignore_literals):
        self.pattern, self.ignore_literals = pattern, ignore_literals
        self.placeholders = [n for n in pattern.nodes if n.op == "placeholder"]
        self.output = pattern.output_node()
        self.anchors = self.output.all_input_nodes

    def at(self, node):
        """A match whose last node is this one, or None."""
        found = {}
        if not self.anchors or not self._node(self.anchors[-1], node, found):
            return None
        others = self.anchors[:-1]
        if not all(anchor in found or self._search(anchor, node.graph, found) for anchor in others):
            return None
        if not self._closed(found):
            return None
        match = InternalMatch([found[anchor] for anchor in self.anchors], found)
        match.placeholder_nodes = [found.get(n) for n in self.placeholders]
        match.returning_nodes = [found[n] for n in self.output.all_input_nodes]
        match.name_node_map = {n.name: m for n, m in found.items()}
        return match

    def _search(self, anchor, graph, found):
        for node in graph.nodes:
            trial = dict(found)
            if self._node(anchor, node, trial):
                found.update(trial)
                return True
        return False

    def _closed(self, found):
        """Nothing outside uses what would go away."""
        inside = set(found.values())
        kept = set(self.output.all_input_nodes) | set(self.placeholders)
        return all(
            pattern in kept or pattern.op == "get_attr" or all(user in inside for user in node.users)
            for pattern, node in found.items() if isinstance(node, Node)
        )  # fmt: skip

    def _node(self, pattern, node, found):
        if pattern in found:
            return found[pattern] is node
        if pattern.op == "placeholder":
            found[pattern] = node
            return True
        if not isinstance(node, Node) or not self._same_step(pattern, node):
            return False
        found[pattern] = node
        if self._value(tuple(pattern.args), tuple(node.args), found) and (
            self._value(dict(pattern.kwargs), dict(node.kwargs), found)
        ):
            return True
        del found[pattern]
        return False

    @staticmethod
    def _same_step(pattern, node):
        if pattern.op != node.op:
            return False
        if pattern.op == "get_attr":
            return pattern.target.rpartition(".")[2] == node.target.rpartition(".")[2]
        if pattern.op == "call_module":
            ours, theirs = pattern.graph.owning_module, node.graph.owning_module
            return type(ours.get_submodule(pattern.target)) is type(theirs.get_submodule(node.target))
        return pattern.target == node.target

    def _value(self, pattern, value, found):
        if isinstance(pattern, Node):
            return self._node(pattern, value, found)
        if isinstance(pattern, (list, tuple)):
            return isinstance(value, (list, tuple)) and len(pattern) == len(value) and (
                all(self._value(p, v, found) for p, v in zip(pattern, value))
            )
        if isinstance(pattern, dict):
            return isinstance(value, dict) and set(pattern) == set(value) and (
                all(self._value(pattern[k], value[k], found) for k in pattern)
            )
        if isinstance(value, Node):
            return False
        return self.ignore_literals or (type(pattern) is type(value) and pattern == value)


def _graph_of(thing):
    if isinstance(thing, Graph):
        return thing
    return thing.graph if isinstance(thing, GraphModule) else symbolic_trace(thing).graph


def replace_pattern(gm, pattern, replacement):
    """Puts what `replacement` does in every place where gm does what `pattern` does; returns where that was."""
    return [Match(anchor=m.anchor, nodes_map=m.nodes_map) for m in _replace(gm, pattern, replacement)]


def replace_pattern_with_filters(gm, pattern, replacement=None, match_filters=None, ignore_literals=False,
                                 replacement_callback=None, node_name_match=""):  # fmt: skip
    """The same, in those places where all filters agree; the replacement may be made for each place by a callback."""
    return _replace(gm, pattern, replacement, match_filters, ignore_literals, replacement_callback, node_name_match)


def _replace(gm, pattern, replacement=None, filters=None, ignore_literals=False, callback=None, name_match=""):
    graph, pattern_graph = gm.graph, _graph_of(pattern)
    matcher = _Matcher(pattern_graph, ignore_literals)
    matches, taken = [], set()
    for node in list(graph.nodes):
        if name_match and name_match not in node.name:
            continue
        match = matcher.at(node)
        if match is None or not all(f(match, graph, pattern_graph) for f in filters or ()):
            continue
        inner = {m for p, m in match.nodes_map.items() if p.op != "placeholder"}
        if not inner & taken:
            taken |= inner
            matches.append(match)
    fixed = None if callback else _graph_of(replacement)
    return [_put(gm, matcher, match, fixed or callback(match, graph, pattern_graph)) for match in matches if match]


def _put(gm, matcher, match, replacement):
    """Puts a graph in the place of one match."""
    graph = gm.graph
    placeholders = [n for n in replacement.nodes if n.op == "placeholder"]
    if len(placeholders) != len(matcher.placeholders):
        raise AssertionError(
            f"the pattern has {len(matcher.placeholders)} inputs and its replacement {len(placeholders)}"
        )
    val_map = dict(zip(placeholders, match.placeholder_nodes))
    inputs = {n for n in match.placeholder_nodes if isinstance(n, Node)}
    inside = [m for p, m in match.nodes_map.items() if p.op != "placeholder"]
    latest = max(inputs, default=None)
    first = min(inside)
    place = first if latest is None or latest < first else latest.next
    before = set(graph.nodes)
    with graph.inserting_before(place):
        result = graph.graph_copy(replacement, val_map)
    added = [n for n in graph.nodes if n not in before]
    if replacement.owning_module is not None:
        for node in added:
            if node.op in ("get_attr", "call_module"):
                _copy_attr(replacement.owning_module, gm, node.target)
    results = [result] if isinstance(result, Node) else _leaves(result)
    olds = match.returning_nodes
    assert len(olds) == len(results), "pattern and replacement return different numbers of values"
    for old, new in zip(olds, results):
        old.replace_all_uses_with(new)
    for node in sorted(inside, reverse=True):
        if not node.users and not node._erased:
            graph.erase_node(node)
    anchor = match.anchors[-1]
    gm.recompile()
    return ReplacedPatterns(anchor=anchor, nodes_map=copy.copy(match.nodes_map), replacements=added)


def _leaves(value):
    found = []
    map_arg(value, found.append)
    return found
