# Made by scripts/stubs.

from . import (
    experimental as experimental, graph as graph, graph_module as graph_module,
    immutable_collections as immutable_collections, interpreter as interpreter, node as node,
    operator_schemas as operator_schemas, passes as passes, proxy as proxy, subgraph_rewriter as subgraph_rewriter,
    traceback as traceback,
)
from ._code import CodeGen as CodeGen
from ._symbolic_trace import (
    ProxyableClassMeta as ProxyableClassMeta, Tracer as Tracer, symbolic_trace as symbolic_trace, wrap as wrap,
)
from .graph import Graph as Graph
from .graph_module import GraphModule as GraphModule
from .interpreter import Interpreter as Interpreter, Transformer as Transformer
from .node import Node as Node, has_side_effect as has_side_effect, map_arg as map_arg
from .proxy import Proxy as Proxy
from .subgraph_rewriter import replace_pattern as replace_pattern
