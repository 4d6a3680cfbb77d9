"""Names for annotations of scripted code."""
from .._jit_internal import (Any, BroadcastingList1, BroadcastingList2, BroadcastingList3, Dict, Future, List,  # noqa: F401
                             Optional, Tuple, Union, is_dict, is_future, is_ignored_fn, is_list, is_optional, is_tuple)
