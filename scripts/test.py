"""Runs all tests, Rust's and Python's: python3 scripts/test.py [rust] [python]

Needs Rust and Python (3.10 or newer, with venv and pip). The Python tests run against the package installed into an
environment of their own, target/python-env.
"""

import os
import pathlib
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(*command, **variables):
    print("+", *(f"{name}={value}" for name, value in variables.items()), *command, flush=True)
    status = subprocess.run(command, cwd=ROOT, env=os.environ | variables).returncode
    if status:
        sys.exit(status)


def environment():
    """The interpreter of an environment with the package and what its tests need."""
    folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "python-env"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        venv.create(folder, with_pip=True)
    run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "numpy", "pytest", "safetensors")
    run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--force-reinstall", "--no-deps", ".")
    return str(python)


def main(parts):
    if "rust" in parts:
        run("cargo", "test", "--workspace", "--release")
        # The kernels of processors with less.
        for isa in ("baseline", "avx2"):
            run("cargo", "test", "--workspace", "--release", "--lib", FLAMBEAU_ISA=isa)
        # The general ways behind the fast ones.
        run("cargo", "test", "--workspace", "--release", "--lib", FLAMBEAU_FAST_PATHS="none")
        run("cargo", "test", "--workspace", "--release", "--test", "derived", FLAMBEAU_FAST_PATHS="none")
    if "python" in parts:
        python = environment()
        # Not the source folder, which lacks the compiled half.
        run(python, "-P" if sys.version_info >= (3, 11) else "-s", "-m", "pytest", "python/tests")


if __name__ == "__main__":
    main(sys.argv[1:] or ["rust", "python"])
