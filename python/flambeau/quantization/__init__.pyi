# Made by scripts/stubs.

from ..ao.quantization import DeQuantStub as DeQuantStub, QuantStub as QuantStub
