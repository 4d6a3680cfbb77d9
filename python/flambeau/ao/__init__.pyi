# Made by scripts/stubs.

from . import quantization as quantization
