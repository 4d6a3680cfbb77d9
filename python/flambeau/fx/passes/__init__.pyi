# Made by scripts/stubs.

from . import infra as infra, shape_prop as shape_prop
