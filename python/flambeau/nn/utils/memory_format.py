"""Convolution weights in another memory format."""
from ..modules import conv


def _convert(module, classes, memory_format):
    if isinstance(module, classes):
        weight = module.weight.detach().clone().contiguous(memory_format=memory_format)
        module.weight.data = weight.resize_(weight.size(), memory_format=memory_format)
    for child in module.children():
        _convert(child, classes, memory_format)
    return module


def convert_conv2d_weight_memory_format(module, memory_format):
    """Give the weights of all 2D convolutions below `module` a memory format."""
    return _convert(module, (conv.Conv2d, conv.ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module, memory_format):
    """Give the weights of all 3D convolutions below `module` a memory format."""
    return _convert(module, (conv.Conv3d, conv.ConvTranspose3d), memory_format)
