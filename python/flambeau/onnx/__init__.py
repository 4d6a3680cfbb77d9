"""Writing models for ONNX: not part of Flambeau. Queries say so, and what libraries import beside is here."""
import enum

__all__ = ["is_in_onnx_export", "export", "OnnxExporterError", "OperatorExportTypes", "TrainingMode", "ONNXProgram",
           "register_custom_op_symbolic", "unregister_custom_op_symbolic", "select_model_mode_for_export"]  # fmt: skip

producer_name, producer_version = "pytorch", "2.13.0"


class OperatorExportTypes(enum.IntEnum):
    """How operators without a counterpart were to be written."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class TrainingMode(enum.IntEnum):
    """The mode that a model is put in while it is written."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2

    __str__ = enum.Enum.__str__


class OnnxExporterError(RuntimeError):
    """A model could not be written."""


class ONNXProgram:
    """A written model. None are made here: the class is there for annotations and checks of type."""


def is_in_onnx_export():
    """Is a model being written now? Never."""
    return False


def export(*args, **kwargs):
    """Raises: models are not written for ONNX."""
    raise NotImplementedError("torch.onnx.export: Flambeau does not write ONNX models")


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version):
    """How an operator is to be written: nothing is."""


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    """Takes such a rule away again."""


class select_model_mode_for_export:
    """Puts a model in a mode within, and back after."""

    def __init__(self, model, mode):
        if not isinstance(mode, TrainingMode):
            raise TypeError(f"'mode' should be a torch.onnx.TrainingMode enum, but got '{type(mode)}'.")
        self.model, self.mode = model, mode

    def __enter__(self):
        self.before = getattr(self.model, "training", None)
        if self.before is not None and self.mode is not TrainingMode.PRESERVE:
            self.model.train(self.mode is TrainingMode.TRAINING)

    def __exit__(self, *exc):
        if self.before is not None and self.mode is not TrainingMode.PRESERVE:
            self.model.train(self.before)


def __getattr__(name):
    if name in ("operators", "symbolic_helper", "symbolic_opset9", "symbolic_opset11"):
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
