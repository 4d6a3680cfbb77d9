# Made by scripts/stubs.

from ._comparison import assert_allclose as assert_allclose, assert_close as assert_close
from ._creation import make_tensor as make_tensor
from ._file_check import FileCheck as FileCheck
