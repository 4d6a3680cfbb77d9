"""How a quantized tensor's numbers would be scaled: names that programs and files pass on. Nothing is quantized here."""

__all__ = ["qscheme", "per_tensor_affine", "per_channel_affine", "per_tensor_symmetric", "per_channel_symmetric",
           "per_channel_affine_float_qparams"]


class qscheme:
    """One of PyTorch's five schemes; there are no others."""

    __slots__ = ("_name",)
    __module__ = "flambeau"

    def __new__(cls, *args):
        raise TypeError("cannot create 'torch.qscheme' instances")

    def __repr__(self):
        return f"torch.{self._name}"

    def __reduce__(self):
        return self._name


def _made(name):
    scheme = object.__new__(qscheme)
    scheme._name = name
    return scheme


per_tensor_affine = _made("per_tensor_affine")
per_channel_affine = _made("per_channel_affine")
per_tensor_symmetric = _made("per_tensor_symmetric")
per_channel_symmetric = _made("per_channel_symmetric")
per_channel_affine_float_qparams = _made("per_channel_affine_float_qparams")
