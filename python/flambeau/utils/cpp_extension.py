"""Extensions in C++ for PyTorch's C++ interface: what build scripts and libraries ask for. This package has no such interface,
so that nothing is compiled against it; the queries answer, and building raises."""
import os
import sys

__all__ = ["get_default_build_root", "check_compiler_ok_for_platform", "get_compiler_abi_compatibility_and_version",
           "BuildExtension", "CppExtension", "CUDAExtension", "SyclExtension", "include_paths", "library_paths", "load",
           "load_inline", "is_ninja_available", "verify_ninja_availability",
           "remove_extension_h_precompiler_headers", "get_cxx_compiler", "check_compiler_is_gcc"]  # fmt: skip

IS_WINDOWS = sys.platform == "win32"
IS_MACOS = sys.platform.startswith("darwin")
IS_LINUX = sys.platform.startswith("linux")
IS_HIP_EXTENSION = False
LIB_EXT = CLIB_EXT = ".pyd" if IS_WINDOWS else ".so"
EXEC_EXT = ".exe" if IS_WINDOWS else ""
CLIB_PREFIX = "" if IS_WINDOWS else "lib"
SHARED_FLAG = "/DLL" if IS_WINDOWS else "-shared"
CUDA_HOME = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
CUDNN_HOME = os.environ.get("CUDNN_HOME") or os.environ.get("CUDNN_PATH")
ROCM_HOME = HIP_HOME = ROCM_VERSION = SYCL_HOME = None
TORCH_LIB_PATH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib")
COMMON_NVCC_FLAGS = [
    "-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__", "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__", "--expt-relaxed-constexpr",
]  # fmt: skip

_NO_INTERFACE = "Flambeau has no C++ interface of PyTorch's: extensions that are written for it cannot be built"


def get_cxx_compiler():
    """The C++ compiler that extensions would be built with."""
    return os.environ.get("CXX", "cl" if IS_WINDOWS else "c++")


def _version_text(compiler):
    import subprocess

    return subprocess.check_output([compiler, "-v"], stderr=subprocess.STDOUT).decode(errors="replace")


def check_compiler_is_gcc(compiler):
    """Is it GCC, on Linux?"""
    import shutil

    if not IS_LINUX or shutil.which(compiler) is None:
        return False
    return "gcc version" in _version_text(compiler)


def check_compiler_ok_for_platform(compiler):
    """Is it a compiler that this platform's extensions are built with?"""
    import shutil

    if IS_WINDOWS:
        return True
    if shutil.which(compiler) is None:
        return False
    return "clang version" in _version_text(compiler) if IS_MACOS else check_compiler_is_gcc(compiler)


def get_compiler_abi_compatibility_and_version(compiler):
    """Is the compiler as new as extensions need, and its version."""
    import subprocess

    from ..torch_version import TorchVersion

    if not check_compiler_ok_for_platform(compiler):
        return False, TorchVersion("0.0.0")
    text = subprocess.check_output([compiler, "-dumpfullversion", "-dumpversion"]).decode().strip()
    return tuple(int(part) for part in text.split(".")[:1]) >= (5,), TorchVersion(text)


def get_default_build_root():
    """Where extensions that are built at run time would lie."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(os.path.realpath(cache), "torch_extensions")


def _get_build_directory(name, verbose):
    """The folder in which the extension `name` would be built, made if it is not there."""
    root = os.environ.get("TORCH_EXTENSIONS_DIR")
    if root is None:
        root = os.path.join(get_default_build_root(), f"py{sys.version_info.major}{sys.version_info.minor}_cpu")
    folder = os.path.join(root, name)
    if verbose:
        print(f"Using {root} as PyTorch extensions root...", file=sys.stderr)
    os.makedirs(folder, exist_ok=True)
    return folder


def remove_extension_h_precompiler_headers():
    """Precompiled headers are removed: there are none."""


def include_paths(device_type="cpu", torch_include_dirs=True):
    """The folders of the headers: this package has none."""
    return []


def library_paths(device_type="cpu", torch_include_dirs=True, cross_target_platform=None):
    """The folders of the libraries: this package has none to link with."""
    return []


def is_ninja_available():
    """Is the build tool ninja there?"""
    import subprocess

    try:
        subprocess.check_output(["ninja", "--version"])
    except Exception:
        return False
    return True


def verify_ninja_availability():
    """RuntimeError if ninja is not there."""
    if not is_ninja_available():
        raise RuntimeError("Ninja is required to load C++ extensions (pip install ninja to get it)")


def _cannot_load(name, sources):
    for source in sources:
        if not os.path.exists(source):
            raise FileNotFoundError(2, "No such file or directory", source)
    verify_ninja_availability()
    raise RuntimeError(f"Error building extension '{name}': {_NO_INTERFACE}")


def load(
    name, sources, extra_cflags=None, extra_cuda_cflags=None, extra_sycl_cflags=None, extra_ldflags=None,
    extra_include_paths=None, build_directory=None, verbose=False, with_cuda=None, with_sycl=None, is_python_module=True,
    is_standalone=False, keep_intermediates=True,
):  # fmt: skip
    """Raises: extensions are not built."""
    _cannot_load(name, [sources] if isinstance(sources, str) else sources)


def load_inline(
    name, cpp_sources, cuda_sources=None, sycl_sources=None, functions=None, extra_cflags=None, extra_cuda_cflags=None,
    extra_sycl_cflags=None, extra_ldflags=None, extra_include_paths=None, build_directory=None, verbose=False,
    with_cuda=None, with_sycl=None, is_python_module=True, with_pytorch_error_handling=True, keep_intermediates=True,
    use_pch=False, no_implicit_headers=False,
):  # fmt: skip
    """Raises: extensions are not built."""
    _cannot_load(name, [])


def _extension(name, sources, kwargs):
    from setuptools import Extension

    kwargs.setdefault("language", "c++")
    return Extension(name, sources, **{key: value for key, value in kwargs.items() if key != "dlink"})


def CppExtension(name, sources, *args, **kwargs):
    """A setuptools extension in C++; `BuildExtension` says that it cannot be built."""
    return _extension(name, sources, kwargs)


def CUDAExtension(name, sources, *args, **kwargs):
    """A setuptools extension in C++ and CUDA; `BuildExtension` says that it cannot be built."""
    if CUDA_HOME is None:
        raise OSError("CUDA_HOME environment variable is not set. Please set it to your CUDA install root.")
    return _extension(name, sources, kwargs)


def SyclExtension(name, sources, *args, **kwargs):
    """A setuptools extension in C++ and SYCL; `BuildExtension` says that it cannot be built."""
    return _extension(name, sources, kwargs)


def __getattr__(name):
    if name != "BuildExtension":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from setuptools.command.build_ext import build_ext

    class BuildExtension(build_ext):
        """The setuptools command for extensions: it refuses to build any."""

        @classmethod
        def with_options(cls, **options):
            """The same command with options of PyTorch's."""

            class WithOptions(cls):
                def __init__(self, *args, **kwargs):
                    super().__init__(*args, **{**kwargs, **options})

            return WithOptions

        def __init__(self, dist, *args, **kwargs):
            super().__init__(dist)
            self.options = kwargs

        def build_extensions(self):
            raise RuntimeError(_NO_INTERFACE)

    globals()[name] = BuildExtension
    return BuildExtension
