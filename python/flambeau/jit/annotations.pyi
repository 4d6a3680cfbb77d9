# Made by scripts/stubs.

from .._jit_internal import (
    is_dict as is_dict, is_future as is_future, is_ignored_fn as is_ignored_fn, is_list as is_list,
    is_optional as is_optional, is_tuple as is_tuple,
)
from ..futures import Future as Future
