# Made by scripts/stubs.
from typing import Any, NamedTuple

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
PACKAGES: Any
class SystemEnv(NamedTuple):
    torch_version: Any
    is_debug_build: Any
    cuda_compiled_version: Any
    gcc_version: Any
    clang_version: Any
    cmake_version: Any
    os: Any
    libc_version: Any
    python_version: Any
    python_platform: Any
    is_cuda_available: Any
    nvidia_gpu_models: Any
    pip_packages: Any
    cpu_info: Any
def get_env_info() -> Any: ...
def get_pretty_env_info() -> Any: ...
def main() -> Any: ...
def pretty_str(envinfo: Any) -> Any: ...
def run(command: Any) -> Any: ...
