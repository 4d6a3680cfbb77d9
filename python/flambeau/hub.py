"""Models from folders with a `hubconf.py`, and files of weights from URLs."""
from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

ENV_GITHUB_TOKEN = "GITHUB_TOKEN"
ENV_TORCH_HOME = "TORCH_HOME"
ENV_XDG_CACHE_HOME = "XDG_CACHE_HOME"
DEFAULT_CACHE_DIR = "~/.cache"
MODULE_HUBCONF = "hubconf.py"
VAR_DEPENDENCY = "dependencies"
READ_DATA_CHUNK = 128 * 1024
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_TRUSTED_REPO_OWNERS = ("facebookresearch", "facebookincubator", "pytorch", "fairinternal")
_hub_dir: str | None = None


class tqdm:
    """A plain progress display: per cent, where the total is known, else bytes."""

    def __init__(self, total=None, disable=False, unit=None, *args, **kwargs) -> None:
        self.total, self.disable, self.n = total, disable, 0

    def update(self, n) -> None:
        if self.disable:
            return
        self.n += n
        text = f"{self.n} bytes" if self.total is None else f"{100 * self.n / float(self.total):.1f}%"
        sys.stderr.write("\r" + text)
        sys.stderr.flush()

    def set_description(self, *args, **kwargs) -> None:
        pass

    def write(self, s) -> None:
        sys.stderr.write(f"{s}\n")

    def close(self) -> None:
        self.disable = True

    def __enter__(self) -> "tqdm":
        return self

    def __exit__(self, *exc) -> None:
        if not self.disable:
            sys.stderr.write("\n")


@contextlib.contextmanager
def _add_to_sys_path(path: str):
    sys.path.insert(0, path)
    try:
        yield
    finally:
        sys.path.remove(path)


def _import_module(name: str, path: str):
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise AssertionError(f"failed to load spec from {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _get_torch_home() -> str:
    home = os.getenv(ENV_TORCH_HOME)
    if home is None:
        home = os.path.join(os.getenv(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR), "torch")
    return os.path.expanduser(home)


def get_dir() -> str:
    """The folder for fetched repositories and weights."""
    if os.getenv("TORCH_HUB"):
        warnings.warn("TORCH_HUB is deprecated, please use env TORCH_HOME instead", stacklevel=2)
    return _hub_dir if _hub_dir is not None else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike) -> None:
    """Choose the folder for fetched repositories and weights."""
    global _hub_dir
    _hub_dir = os.path.expanduser(d)


def _default_branch(owner: str, name: str, folder: str) -> str:
    """``main``, or ``master`` in older repositories."""
    from urllib.error import HTTPError, URLError
    from urllib.request import urlopen

    try:
        with urlopen(f"https://github.com/{owner}/{name}/tree/main/"):
            return "main"
    except HTTPError as error:
        if error.code == 404:
            return "master"
        raise
    except URLError as error:
        raise RuntimeError("It looks like there is no internet connection and the repo could not be found in the cache "
                           f"({folder})") from error


def _parse_repo_info(github: str) -> tuple[str, str, str]:
    """Owner, name and branch or tag of ``owner/name[:ref]``."""
    info, _, ref = github.partition(":")
    owner, name = info.split("/")
    if not ref:
        folder = get_dir()
        for candidate in ("main", "master"):
            if os.path.exists(os.path.join(folder, f"{owner}_{name}_{candidate}")):
                return owner, name, candidate
        ref = _default_branch(owner, name, folder)
    return owner, name, ref


def _repo_folder(github: str, force_reload: bool, trust_repo, calling_fn: str, verbose: bool = True) -> str:
    """The local copy of a repository, fetched if need be."""
    folder = get_dir()
    os.makedirs(folder, exist_ok=True)
    owner, name, ref = _parse_repo_info(github)
    path = os.path.join(folder, "_".join(x.replace("/", "_") for x in (owner, name, ref)))
    _check_repo_is_trusted(owner, name, trust_repo, calling_fn)
    if os.path.exists(path) and not force_reload:
        if verbose:
            sys.stderr.write(f"Using cache found in {path}\n")
        return path
    import shutil
    import zipfile

    cached = os.path.join(folder, ref.replace("/", "_") + ".zip")
    url = f"https://github.com/{owner}/{name}/zipball/{ref}"
    sys.stdout.write(f'Downloading: "{url}" to {cached}\n')
    download_url_to_file(url, cached, progress=False)
    with zipfile.ZipFile(cached) as archive:
        base = Path(folder).resolve()
        for member in archive.namelist():
            target = (base / member).resolve()
            if base not in target.parents and target != base:
                raise ValueError(f"Archive entry would extract outside target directory: {member}")
        extracted = os.path.join(folder, archive.infolist()[0].filename)
        archive.extractall(folder)
    os.remove(cached)
    shutil.rmtree(path, ignore_errors=True)
    shutil.move(extracted, path)
    return path


def _check_repo_is_trusted(owner: str, name: str, trust_repo, calling_fn: str) -> None:
    path = os.path.join(get_dir(), "trusted_list")
    known = set()
    if os.path.exists(path):
        with open(path) as file:
            known = {line.strip() for line in file}
    key = f"{owner}_{name}"
    trusted = owner in _TRUSTED_REPO_OWNERS or key in known
    if trust_repo is None:
        trust_repo = "check"
    if trust_repo is False or (trust_repo == "check" and not trusted):
        answer = input(f"The repository {owner}_{name} does not belong to the list of trusted repositories and as such cannot "
                       "be downloaded. Do you trust this repository and wish to add it to the trusted list of repositories "
                       "(y/N)?")
        if answer.lower() not in ("y", "yes"):
            raise Exception("Untrusted repository.")  # noqa: TRY002
        trust_repo = True
    if trust_repo is True and key not in known:
        with open(path, "a") as file:
            file.write(key + "\n")


def _check_dependencies(module) -> None:
    missing = [package for package in getattr(module, VAR_DEPENDENCY, None) or ()
               if importlib.util.find_spec(package) is None and package not in sys.modules]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")


def _load_entry_from_hubconf(module, model: str):
    if not isinstance(model, str):
        raise ValueError("Invalid input: model should be a string of function name")
    _check_dependencies(module)
    function = getattr(module, model, None)
    if function is None or not callable(function):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return function


def _hubconf(folder: str):
    with _add_to_sys_path(folder):
        return _import_module(MODULE_HUBCONF, os.path.join(folder, MODULE_HUBCONF))


def list(github, force_reload=False, skip_validation=False, trust_repo="check", verbose=True):
    """The names of the entry points of a repository."""
    module = _hubconf(_repo_folder(github, force_reload, trust_repo, "list", verbose))
    return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(github, model, force_reload=False, skip_validation=False, trust_repo="check"):
    """What an entry point of a repository says about itself."""
    return _load_entry_from_hubconf(_hubconf(_repo_folder(github, force_reload, trust_repo, "help")), model).__doc__


def load(repo_or_dir, model, *args, source="github", trust_repo="check", force_reload=False, verbose=True,
         skip_validation=False, **kwargs):
    """Call an entry point of a repository (``source="github"``) or of a folder (``source="local"``)."""
    kind = source.lower()
    if kind not in ("github", "local"):
        raise ValueError(f'Unknown source: "{kind}". Allowed values: "github" | "local".')
    folder = repo_or_dir
    if kind == "github":
        folder = _repo_folder(repo_or_dir, force_reload, trust_repo, "load", verbose)
    return _load_local(folder, model, *args, **kwargs)


def _load_local(hubconf_dir, model, *args, **kwargs):
    """Call an entry point of a folder."""
    with _add_to_sys_path(hubconf_dir):
        module = _import_module(MODULE_HUBCONF, os.path.join(hubconf_dir, MODULE_HUBCONF))
        return _load_entry_from_hubconf(module, model)(*args, **kwargs)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Fetch a URL into a file, whole or not at all; the start of its SHA-256 may be checked."""
    import hashlib
    import shutil
    import uuid
    from urllib.request import Request, urlopen

    response = urlopen(Request(url, headers={"User-Agent": "flambeau.hub"}))
    length = response.headers.get("Content-Length") if hasattr(response, "headers") else None
    dst = os.path.expanduser(dst)
    temporary = f"{dst}.{uuid.uuid4().hex}.partial"
    try:
        digest = hashlib.sha256() if hash_prefix is not None else None
        with open(temporary, "wb") as file, tqdm(total=int(length) if length else None, disable=not progress) as bar:
            while chunk := response.read(READ_DATA_CHUNK):
                file.write(chunk)
                if digest is not None:
                    digest.update(chunk)
                bar.update(len(chunk))
        if digest is not None and digest.hexdigest()[:len(hash_prefix)] != hash_prefix:
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')
        shutil.move(temporary, dst)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


def load_state_dict_from_url(url: str, model_dir: str | None = None, map_location=None, progress: bool = True,
                             check_hash: bool = False, file_name: str | None = None,
                             weights_only: bool = False) -> dict[str, Any]:
    """Load weights from a URL, kept in `model_dir` (default: ``checkpoints`` in the hub's folder)."""

    if os.getenv("TORCH_MODEL_ZOO"):
        warnings.warn("TORCH_MODEL_ZOO is deprecated, please use env TORCH_HOME instead", stacklevel=2)
    model_dir = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(model_dir, exist_ok=True)
    name = file_name if file_name is not None else os.path.basename(urlparse(url).path)
    cached = os.path.join(model_dir, name)
    if not os.path.exists(cached):
        sys.stdout.write(f'Downloading: "{url}" to {cached}\n')
        prefix = None
        if check_hash:
            found = HASH_REGEX.search(name)
            prefix = found.group(1) if found else None
        download_url_to_file(url, cached, prefix, progress=progress)
    import zipfile

    if zipfile.is_zipfile(cached) and not _has_pickle(cached):  # an older way of shipping one file
        with zipfile.ZipFile(cached) as archive:
            members = archive.infolist()
            if len(members) != 1:
                raise RuntimeError("Only one file(not dir) is allowed in the zipfile")
            archive.extractall(model_dir)
            cached = os.path.join(model_dir, members[0].filename)
    from .serialization import load as _load

    return _load(cached, map_location=map_location, weights_only=weights_only)


def _has_pickle(path: str) -> bool:
    import zipfile

    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("data.pkl") for name in archive.namelist())
