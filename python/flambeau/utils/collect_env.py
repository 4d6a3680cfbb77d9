"""What a report of a fault should say of the machine and the packages: `python -m flambeau.utils.collect_env`."""
import locale
import platform
import re
import subprocess
import sys
from collections import namedtuple

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main", "pretty_str", "run"]

SystemEnv = namedtuple(
    "SystemEnv",
    "torch_version is_debug_build cuda_compiled_version gcc_version clang_version cmake_version os libc_version "
    "python_version python_platform is_cuda_available nvidia_gpu_models pip_packages cpu_info",
)

#: Packages that are listed.
PACKAGES = ("flambeau", "mypy", "numpy", "onnx", "torch", "torchaudio", "torchvision")

_TEXT = """\
PyTorch version: {torch_version}
Is debug build: {is_debug_build}
CUDA used to build PyTorch: {cuda_compiled_version}

OS: {os}
GCC version: {gcc_version}
Clang version: {clang_version}
CMake version: {cmake_version}
Libc version: {libc_version}

Python version: {python_version}
Python platform: {python_platform}
Is CUDA available: {is_cuda_available}
GPU models and configuration: {nvidia_gpu_models}

CPU:
{cpu_info}

Versions of relevant libraries:
{pip_packages}"""


def run(command):
    """A command's status, output and errors; a status of 127 if there is no such command."""
    try:
        done = subprocess.run(command, shell=isinstance(command, str), capture_output=True, check=False)
    except FileNotFoundError:
        return 127, "", "Command not found"
    coding = locale.getpreferredencoding(False)
    return done.returncode, done.stdout.decode(coding, "replace").strip(), done.stderr.decode(coding, "replace").strip()


def _first_match(command, pattern):
    status, out, _ = run(command)
    match = re.search(pattern, out) if status == 0 else None
    return match and match.group(1)


def _os_name():
    try:
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']} ({platform.machine()})"
    except (AttributeError, KeyError, OSError):
        return f"{platform.system()} {platform.release()} ({platform.machine()})"


def _packages():
    from importlib.metadata import PackageNotFoundError, version

    lines = []
    for name in PACKAGES:
        try:
            lines.append(f"[pip3] {name}=={version(name)}")
        except PackageNotFoundError:
            continue
    return "\n".join(lines)


def get_env_info():
    """What is known of the machine and the packages."""
    import flambeau

    return SystemEnv(
        torch_version=str(flambeau.__version__),
        is_debug_build="False",
        cuda_compiled_version=None,
        gcc_version=_first_match(["gcc", "--version"], r"gcc (.*)"),
        clang_version=_first_match(["clang", "--version"], r"clang version (.*)"),
        cmake_version=_first_match(["cmake", "--version"], r"cmake (.*)"),
        os=_os_name(),
        libc_version="-".join(platform.libc_ver()).strip("-") or None,
        python_version=f"{' '.join(sys.version.split())} ({sys.maxsize.bit_length() + 1}-bit runtime)",
        python_platform=platform.platform(),
        is_cuda_available=str(flambeau.cuda.is_available()),
        nvidia_gpu_models=None,
        pip_packages=_packages(),
        cpu_info=_first_match(["lscpu"], r"Model name:\s*(.*)") or platform.processor(),
    )


def pretty_str(envinfo):
    """The same as text."""
    words = {None: "Could not collect", "": "Could not collect"}
    return _TEXT.format(**{name: words.get(value, value) for name, value in envinfo._asdict().items()})


def get_pretty_env_info():
    """What is known of the machine and the packages, as text."""
    return pretty_str(get_env_info())


def main():
    """Prints it."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
