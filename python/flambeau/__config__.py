"""What the library was built with."""


def show():
    """A few lines for people: the version, the instruction set and what is there."""
    import platform

    from . import backends
    from .version import __version__

    return "\n".join([
        "Flambeau built with:",
        "  - Rust",
        f"  - {platform.system()} on {platform.machine()}",
        f"  - CPU capability usage: {backends.cpu.get_cpu_capability()}",
        f"  - Build settings: BUILD_TYPE=Release, TORCH_VERSION={__version__}, USE_CUDA=OFF, USE_MKL=OFF, USE_OPENMP=OFF",
    ]) + "\n"  # fmt: skip


def parallel_info():
    """A few lines about threads."""
    import os

    from . import _C, _settings

    return (
        f"ATen/Parallel:\n\tat::get_num_threads() : {_C.get_num_threads()}\n"
        f"\tat::get_num_interop_threads() : {_settings.get_num_interop_threads()}\n"
        f"std::thread::hardware_concurrency() : {os.cpu_count()}\n"
        f"Environment variables:\n\tOMP_NUM_THREADS : {os.environ.get('OMP_NUM_THREADS', '[not set]')}\n"
        "ATen parallel backend: native thread pool\n"
    )


def _cxx_flags():
    return ""
