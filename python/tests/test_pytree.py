"""Trees: taking apart, paths, registration, shapes as text. Values are what PyTorch 2.13 gives."""
import copy
import dataclasses
import enum
import json
import pickle
import time
from collections import OrderedDict, defaultdict, deque, namedtuple

import flambeau as torch
import pytest
from flambeau.utils import _pytree as pytree

Point = namedtuple("Point", "x y")
TREES = [[1, (2, 3)], {"b": 1, "a": [2, {"c": 3}]}, OrderedDict(x=1), defaultdict(list, {"k": 1}), deque([1, 2], maxlen=3),
         Point(1, [2]), 1, None, [], time.gmtime(0)]  # fmt: skip


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: type(tree).__name__)
def test_round_trip(tree):
    leaves, spec = pytree.tree_flatten(tree)
    assert pytree.tree_unflatten(leaves, spec) == tree
    assert spec.num_leaves == len(leaves) and pytree.tree_leaves(tree) == leaves == list(pytree.tree_iter(tree))
    assert [pytree.key_get(tree, path) for path, _ in pytree.tree_leaves_with_path(tree)] == leaves
    assert pickle.loads(pickle.dumps(spec)) == spec == copy.deepcopy(spec)
    assert hash(copy.deepcopy(spec)) == hash(spec)


def test_spec():
    spec = pytree.tree_structure([1, {"a": (2, 3)}])
    assert str(spec) == "TreeSpec(list, None, [*,\n  TreeSpec(dict, ['a'], [TreeSpec(tuple, None, [*,\n      *])])])"
    assert (spec.num_nodes, spec.num_leaves, spec.num_children, spec.is_leaf()) == (6, 3, 2, False)
    assert spec.child(0) == pytree.treespec_leaf() == pytree.LeafSpec()
    assert spec.child(1) == pytree.treespec_dict(a=pytree.treespec_tuple([pytree.LeafSpec()] * 2))
    assert pytree.treespec_pprint(spec) == "[*, {'a': (*, *)}]"
    assert spec.flatten_up_to([1, OrderedDict(a=(5, [6]))]) == [1, 5, [6]]
    assert spec != 5


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda s: s.flatten_up_to([1]), ValueError, "Node arity mismatch; expected 2, but got 1."),
    (lambda s: s.flatten_up_to((1, 2)), ValueError,
     "Node type mismatch; expected <class 'list'>, but got <class 'tuple'>."),
    (lambda s: s.flatten_up_to([1, {"b": (5, 6)}]), ValueError,
     "Node keys mismatch; missing key(s): {'a'}; extra key(s): {'b'}."),
    (lambda s: s.unflatten([1]), ValueError,
     "treespec.unflatten(leaves): `leaves` has length 1 but the spec refers to a pytree that holds 3 items"),
    (lambda s: pytree.tree_unflatten([1], 5), TypeError,
     "Expected `treespec` to be an instance of PyTreeSpec but got item of type <class 'int'>."),
    (lambda s: pytree.treespec_tuple([5]), ValueError, "Expected a tuple of TreeSpec values, got: [5]."),
    (lambda s: pytree.treespec_dict(a=5), ValueError, "Expected a dictionary of TreeSpec values, got: {'a': 5}."),
    (lambda s: pytree.tree_map_only(5, abs, [1]), TypeError,
     "Argument must be a type, a tuple of types, or a callable."),
    (lambda s: pytree.treespec_dumps(s, 7), ValueError, "Unknown protocol 7. Available protocols: [1]"),
    (lambda s: pytree.treespec_loads('[1, {"type": "nonsense", "context": "null", "children_spec": []}]'),
     NotImplementedError, "Deserializing nonsense in pytree is not registered."),
    (lambda s: pytree.treespec_dumps(pytree.tree_structure(Point(1, 2))), NotImplementedError,
     "Can't serialize TreeSpec of namedtuple class"),
    (lambda s: pytree.register_pytree_node(list, None, None), ValueError,
     "<class 'list'> is already registered as pytree node."),
    (lambda s: pytree.register_dataclass(Point), ValueError, "field_names must be specified with a list of all fields"),
    (lambda s: pytree.register_constant(list), TypeError,
     "register_constant(cls) expects `cls` to have a non-default `__hash__` implementation."),
])  # fmt: skip
def test_wrong_calls(call, error, words):
    with pytest.raises(error) as raised:
        call(pytree.tree_structure([1, {"a": (2, 3)}]))
    assert str(raised.value).startswith(words)


def test_paths():
    pairs, spec = pytree.tree_flatten_with_path({"q": [Point(1, 2)]})
    path = (pytree.MappingKey("q"), pytree.SequenceKey(0), pytree.GetAttrKey("y"))
    assert pairs[1] == (path, 2) and pytree.keystr(path) == "['q'][0].y"
    assert repr(path[0]) == "MappingKey(key='q')" and hash(path) == hash(copy.deepcopy(path))
    assert pytree.tree_map_with_path(lambda p, a, b: (pytree.keystr(p), a + b), [1, {"a": 2}], [3, {"a": 4}]) == [
        ("[0]", 4), {"a": ("[1]['a']", 6)}]  # fmt: skip


def test_maps():
    tree = [1, ("a", 2.0)]
    double = lambda x: x * 2  # noqa: E731
    assert pytree.tree_map(lambda a, b: (a, b), {"b": 1, "a": 2}, {"a": 1, "b": 2}) == {"b": (1, 2), "a": (2, 1)}
    assert pytree.tree_map_only(int | float, double, tree) == [2, ("a", 4.0)]
    assert pytree.tree_map_only(lambda x: x == 1, double, tree) == [2, ("a", 2.0)]
    seen = []
    assert pytree.tree_map_only_(str, seen.append, tree) is tree and seen == ["a"]
    assert pytree.tree_all_only(float, lambda x: x > 1, tree) and not pytree.tree_any_only(int, lambda x: x > 1, tree)
    assert pytree.tree_is_leaf(None) and not pytree.tree_is_leaf([])
    assert pytree.tree_is_leaf([], is_leaf=lambda x: not x)
    assert pytree.arg_tree_leaves(1, [2], a={"b": 3}) == [1, 2, 3]


def test_results_with_names():
    result = torch.max(torch.ones(2, 2), 0)
    leaves, spec = pytree.tree_flatten(result)
    assert str(spec) == "TreeSpec(max, None, [*,\n  *])" and type(spec.unflatten(leaves)) is type(result)
    assert pytree.is_structseq(result) and not pytree.is_namedtuple(result)
    assert pytree.tree_leaves(torch.Size([1, 2])) == [1, 2]


def test_named_tuples():
    assert pytree.is_namedtuple(Point) and pytree.is_namedtuple(Point(1, 2)) and not pytree.is_namedtuple_instance(Point)
    assert not pytree.is_namedtuple_class(tuple) and not pytree.is_namedtuple_class(5)
    assert pytree.is_structseq_class(time.struct_time) and not pytree.is_structseq_class(int)


def test_registration():
    class Pair:
        def __init__(self, x, y):
            self.x, self.y = x, y

    keyed = lambda p: ([(pytree.GetAttrKey("x"), p.x), (pytree.GetAttrKey("y"), p.y)], {"kind"})  # noqa: E731
    with pytest.raises(ValueError, match="must be None or registered"):
        pytree.register_pytree_node(Pair, lambda p: ([p.x, p.y], None), None, to_dumpable_context=list)
    pytree.register_pytree_node(
        Pair, lambda p: ([p.x, p.y], {"kind"}), lambda c, _: Pair(*c), serialized_type_name="test.Pair",
        to_dumpable_context=list, from_dumpable_context=set, flatten_with_keys_fn=keyed,
    )  # fmt: skip
    spec = pytree.tree_structure(Pair(1, 2))
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    assert pytree.keystr(pytree.tree_leaves_with_path(Pair(1, 2))[1][0]) == ".y"
    assert pytree.tree_map(lambda x: x + 1, Pair(1, 2)).y == 3
    pytree._deregister_pytree_node(Pair)
    assert pytree.tree_is_leaf(Pair(1, 2))
    with pytest.warns(FutureWarning, match="_register_pytree_node` is deprecated"):
        pytree._register_pytree_node(Pair, lambda p: ([p.x, p.y], None), lambda c, _: Pair(*c))
    with pytest.raises(ValueError, match="Did not find a flatten_with_keys_fn for type"):
        pytree.tree_leaves_with_path([Pair(1, 2)])
    pytree._deregister_pytree_node(Pair)


def test_dataclass():
    @dataclasses.dataclass
    class Sample:
        x: int
        y: int | None = None

    with pytest.raises(ValueError, match="Missing fields in `field_names`: {'y'}"):
        pytree.register_dataclass(Sample, field_names=["x"])
    with pytest.raises(ValueError, match="Unexpected fields in `field_names`: {'z'}"):
        pytree.register_dataclass(Sample, field_names=["x", "y", "z"])
    pytree.register_dataclass(Sample, serialized_type_name="test.Sample")
    leaves, spec = pytree.tree_flatten(Sample(1))
    assert leaves == [1] and spec.context == [["x"], ["y"]] and spec.unflatten([5]) == Sample(5)
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    pytree._deregister_pytree_node(Sample)


def test_constant():
    @dataclasses.dataclass(frozen=True)
    class Choice:
        value: int

    pytree.register_constant(Choice)
    leaves, spec = pytree.tree_flatten([Choice(4), 1])
    assert leaves == [1] and spec.unflatten([2]) == [Choice(4), 2] and pytree.is_constant_class(Choice)
    assert pytree._retrieve_constant(spec.child(0)) == Choice(4)
    pytree._deregister_pytree_node(Choice)


class Colour(enum.Enum):
    RED = 1


def test_json():
    spec = pytree.tree_structure({"b": 1, "a": [deque([2], maxlen=3), defaultdict(list, k=3)], Colour.RED: ()})
    text = pytree.treespec_dumps(spec)
    assert pytree.treespec_loads(text) == spec
    version, schema = json.loads(text)
    assert version == 1 and schema["type"] == "builtins.dict"
    assert schema["context"].startswith('["b", "a", {"__enum__": true, "fqn": "')
    assert schema["children_spec"][0] == {"type": None, "context": None, "children_spec": []}
    queue, default = schema["children_spec"][1]["children_spec"]
    assert (queue["type"], queue["context"]) == ("collections.deque", "3")
    assert default["context"] == {"default_factory_module": "builtins", "default_factory_name": "list", "dict_context": ["k"]}
    pytree._register_namedtuple(Point, serialized_type_name="test.Point")
    spec = pytree.tree_structure(Point(1, 2))
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    with pytest.raises(TypeError, match="Unable to serialize context"):
        pytree.treespec_dumps(pytree.tree_structure({torch.float32: 1}))


def test_broadcast():
    spec = pytree.tree_structure([1, {"a": (2, 3), "b": 4}])
    assert pytree._broadcast_to_and_flatten([1, 2], spec) == [1, 2, 2, 2]
    assert pytree._broadcast_to_and_flatten([1, {"b": 5, "a": 6}], spec) == [1, 6, 6, 5]
    assert pytree._broadcast_to_and_flatten((1, 2), spec) is None
