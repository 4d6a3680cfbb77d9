"""Extensions compiled from C++ against PyTorch's headers: Flambeau has none of those, so building raises.

Libraries import this module to see what could be built.
"""
import os
import sys
import shutil

__all__ = ["BuildExtension", "CUDAExtension", "CppExtension", "SyclExtension", "get_cxx_compiler", "get_default_build_root",
           "include_paths", "is_ninja_available", "library_paths", "load", "load_inline", "verify_ninja_availability"]  # fmt: skip

CUDA_HOME = ROCM_HOME = CUDNN_HOME = SYCL_HOME = None
IS_WINDOWS, IS_MACOS, IS_LINUX = os.name == "nt", sys.platform == "darwin", sys.platform.startswith("linux")
IS_HIP_EXTENSION = False


def _refuse(what):
    raise RuntimeError(f"{what}: Flambeau has no C++ interface that extensions for PyTorch could be built against")


def load(name, sources, *args, **kwargs):
    """Would compile and load an extension."""
    _refuse(f"Error building extension '{name}'")


load_inline = load


def CppExtension(name, sources, *args, **kwargs):
    """Would describe an extension to build."""
    _refuse(f"CppExtension('{name}')")


def CUDAExtension(name, sources, *args, **kwargs):
    """Would describe an extension to build."""
    _refuse(f"CUDAExtension('{name}')")


def SyclExtension(name, sources, *args, **kwargs):
    """Would describe an extension to build."""
    _refuse(f"SyclExtension('{name}')")


class BuildExtension:
    """The build step of such extensions, for `setup(cmdclass=...)`."""

    def __init__(self, *args, **kwargs):
        _refuse("BuildExtension")

    @classmethod
    def with_options(cls, **options):
        """The class with some of its arguments given."""
        from functools import partial

        return partial(cls, **options)


def include_paths(device_type="cpu", torch_include_dirs=True):
    """Folders of headers: none."""
    return []


def library_paths(device_type="cpu", torch_include_dirs=True, cross_target_platform=None):
    """Folders of libraries: none."""
    return []


def get_cxx_compiler():
    """The compiler that would be used."""
    return os.environ.get("CXX", "cl" if IS_WINDOWS else "c++")


def get_default_build_root():
    """Where extensions are kept."""
    import tempfile

    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(root if os.path.isdir(root) else tempfile.gettempdir(), "torch_extensions")


def is_ninja_available():
    """Is the build tool there?"""
    return shutil.which("ninja") is not None


def verify_ninja_availability():
    """Raises if it is not."""
    if not is_ninja_available():
        raise RuntimeError("Ninja is required to load C++ extensions (pip install ninja to get it)")
