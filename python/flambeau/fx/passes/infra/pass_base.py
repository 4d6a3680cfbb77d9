"""A pass: something done to a graph module."""
import abc
from collections import namedtuple

__all__ = ["PassResult", "PassBase"]


class PassResult(namedtuple("PassResult", ["graph_module", "modified"])):
    """The module after a pass, and whether it was changed."""

    __slots__ = ()


class PassBase(abc.ABC):
    """A pass with checks before and after: subclasses write `call`."""

    def __call__(self, graph_module):
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module):
        """Does it; returns a PassResult, or None."""

    def requires(self, graph_module):  # noqa: B027
        """Raises if the module is not what the pass needs."""

    def ensures(self, graph_module):  # noqa: B027
        """Raises if the module is not what the pass promises."""
