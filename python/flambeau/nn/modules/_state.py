"""What a module saves and loads: `state_dict` and `load_state_dict`."""
import itertools
import warnings
import weakref
from collections import OrderedDict, namedtuple
from contextlib import nullcontext
from functools import update_wrapper

from ... import _C, __future__
from ...utils import swap_tensors
from ..parameter import Parameter, is_lazy
from ._hooks import add_hook

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys!r}, unexpected_keys={self.unexpected_keys!r})"

    __str__ = __repr__


def _exchange(param, value, assign):
    """Exchange a parameter or buffer with what it makes of a tensor of a state_dict."""
    new = param.module_load(value, assign=assign)
    if new is value or new is param:
        raise RuntimeError(
            "module_load returned one of self or other, please .detach() the result if returning one of the inputs in "
            f"{type(param).__name__}.module_load"
        )
    if isinstance(param, Parameter):
        if not isinstance(new, Parameter):
            new = Parameter(new, requires_grad=param.requires_grad)
        else:
            new.requires_grad_(param.requires_grad)
    swap_tensors(param, new)


class _WrappedHook:
    """A hook that may want its module as first argument, without keeping the module alive."""

    def __init__(self, hook, module=None):
        update_wrapper(self, hook)
        self._bind(hook, module is not None, module)

    def _bind(self, hook, with_module, module, verb="call"):
        self.hook, self.with_module = hook, with_module
        if with_module:
            self.module = weakref.ref(self._alive(module, verb))

    @staticmethod
    def _alive(module, verb):
        if module is None:
            raise RuntimeError(f"You are trying to {verb} the hook of a dead Module!")
        return module

    def __call__(self, *args, **kwargs):
        first = (self._alive(self.module(), "call"),) if self.with_module else ()
        return self.hook(*first, *args, **kwargs)

    def __getstate__(self):
        module = {"module": self.module()} if self.with_module else {}
        return {"hook": self.hook, "with_module": self.with_module, **module}

    def __setstate__(self, state):
        self._bind(state["hook"], state["with_module"], state.get("module"), "revive")


class _NothingReturned:
    """A public state_dict post-hook: it changes the dictionary in place and returns nothing."""

    def __init__(self, hook):
        self.hook = hook

    def __call__(self, *args):
        if self.hook(*args) is not None:
            raise RuntimeError("state_dict post-hook must return None")


def _quoted(keys):
    return ", ".join(f'"{k}"' for k in keys)


def _with_metadata():
    """An empty state dictionary."""
    state = OrderedDict()
    state._metadata = OrderedDict()
    return state


def _collect(module, target, prefix, keep_vars):
    """Put the state of a module, and of all below it, into `target`."""
    info = {"version": module._version}
    metadata = getattr(target, "_metadata", None)
    if metadata is not None:
        metadata[prefix[:-1]] = info
    if module._state_dict_pre_hooks:
        for prepare in module._state_dict_pre_hooks.values():
            prepare(module, prefix, keep_vars)
    module._save_to_state_dict(target, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is None:
            continue
        start = f"{prefix}{name}."
        if type(child).state_dict is _own_state_dict and "state_dict" not in child.__dict__:
            _collect(child, target, start, keep_vars)
        else:
            child.state_dict(destination=target, prefix=start, keep_vars=keep_vars)
    if module._state_dict_hooks:
        for finish in module._state_dict_hooks.values():
            changed = finish(module, target, prefix, info)
            target = target if changed is None else changed
    return target


class StateMixin:
    """The half of `Module` that deals with state dictionaries."""

    def _register_state_dict_hook(self, hook):
        return add_hook(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook):
        """`hook(module, state_dict, prefix, local_metadata)` runs after `state_dict`, and changes it in place."""
        return self._register_state_dict_hook(_NothingReturned(hook))

    def register_state_dict_pre_hook(self, hook):
        """`hook(module, prefix, keep_vars)` runs before `state_dict`."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return add_hook(self._load_state_dict_pre_hooks, _WrappedHook(hook, self if with_module else None))

    def register_load_state_dict_pre_hook(self, hook):
        """`hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)`."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook):
        """`hook(module, incompatible_keys)` runs after loading; it may change the lists in place."""
        return add_hook(self._load_state_dict_post_hooks, hook)

    def get_extra_state(self):
        """What else to put in the state_dict; define together with `set_extra_state`."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. Please file an issue at "
            "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml to report this bug."
        )

    def set_extra_state(self, state):
        """Take back what `get_extra_state` gave."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. Please file an issue at "
            "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml to report this bug."
        )

    def _persistent_tensors(self):
        skip = self._non_persistent_buffers_set
        buffers = ((k, v) for k, v in self._buffers.items() if k not in skip)
        return itertools.chain(self._parameters.items(), buffers)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, tensor in self._parameters.items():
            if tensor is not None:
                destination[prefix + name] = tensor if keep_vars else tensor.detach()
        for name, tensor in self._buffers.items() if self._buffers else ():
            if tensor is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not StateMixin.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """All parameters and persistent buffers by dotted name. Tensors are detached and share memory, unless `keep_vars`."""
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to https://pytorch.org/docs/main/"
                "generated/torch.nn.Module.html#torch.nn.Module.state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
            named = [(destination, None), (prefix, ""), (keep_vars, False)]
            taken = [by_name if by_name != default else by_place for by_place, (by_name, default) in zip(args, named)]
            destination, prefix, keep_vars = taken + [by_name for by_name, _ in named[len(args):]]
        target = _with_metadata() if destination is None else destination
        return _collect(self, target, prefix, keep_vars)

    def _load_tensor(self, key, name, param, value, assign, errors):
        """Put one tensor of a state_dict in its place, unrecorded; what is wrong with it goes into `errors`."""
        if not isinstance(value, _C.Tensor):
            errors.append(
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint '
                f"but received {type(value)}"
            )
            return
        lazy = is_lazy(param)
        if not lazy and param.dim() == 0 and value.dim() == 1 and value.shape[0] == 1:
            value = value[0]  # scalars used to be saved with one dim
        if not lazy and value.shape != param.shape:
            errors.append(
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                f"the shape in current model is {param.shape}."
            )
            return
        if param.is_meta and not value.is_meta and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, "
                "which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to their "
                "corresponding key in the module instead of copying them in place?)",
                stacklevel=2,
            )
        try:
            if __future__.get_swap_module_params_on_conversion():
                _exchange(param, value, assign)
            elif assign:
                if isinstance(param, Parameter):
                    if isinstance(value, Parameter):
                        value.requires_grad_(param.requires_grad)
                    else:
                        value = Parameter(value, requires_grad=param.requires_grad)
                setattr(self, name, value)
            else:
                param.copy_(value)
        except Exception as e:
            errors.append(
                f'While copying the parameter named "{key}", whose dimensions in the model are {param.size()} and whose '
                f"dimensions in the checkpoint are {value.size()}, an exception occurred : {e.args}."
            )

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        """Load this module's own tensors (not its children's) from `state_dict`."""
        notes = (missing_keys, unexpected_keys, error_msgs)
        for prepare in self._load_state_dict_pre_hooks.values():
            prepare(state_dict, prefix, local_metadata, strict, *notes)
        own = {k: v for k, v in self._persistent_tensors() if v is not None}
        assign = local_metadata.get("assign_to_params_buffers", False)
        with _C.no_grad() if own else nullcontext():
            for name, param in own.items():
                key = prefix + name
                if key in state_dict:
                    self._load_tensor(key, name, param, state_dict[key], assign, error_msgs)
                elif strict:
                    missing_keys.append(key)

        extra_key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not StateMixin.set_extra_state:
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)

        if strict:
            for key in state_dict.keys():
                if key.startswith(prefix) and key != extra_key:
                    head, dot, _ = key[len(prefix):].partition(".")
                    if head not in (self._modules if dot else own):
                        unexpected_keys.append(key)

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copy (or, with `assign`, take over) the tensors of a state_dict; returns the names missing and unexpected."""
        from collections.abc import Mapping

        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata = getattr(state_dict, "_metadata", None)
        tensors = OrderedDict(state_dict)  # hooks may change it
        if metadata is not None:
            tensors._metadata = metadata
        missing, unexpected, errors = [], [], []

        def load(module, part, prefix):
            info = (metadata or {}).get(prefix[:-1], {})
            if assign:
                info["assign_to_params_buffers"] = assign
            module._load_from_state_dict(part, prefix, info, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    start = f"{prefix}{name}."
                    load(child, {key: tensor for key, tensor in part.items() if key.startswith(start)}, start)
            for finish in module._load_state_dict_post_hooks.values():
                if finish(module, _IncompatibleKeys(missing, unexpected)) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                        "values, if incompatible_keys need to be modified, it should be done inplace."
                    )

        load(self, tensors, "")
        del load  # It names itself, and would wait for the garbage collector.
        if strict:
            kinds = (("Missing", missing), ("Unexpected", unexpected))
            errors[:0] = [f"{kind} key(s) in state_dict: {_quoted(keys)}. " for kind, keys in kinds if keys]
        if errors:
            listing = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listing}")
        return _IncompatibleKeys(missing, unexpected)


_own_state_dict = StateMixin.state_dict
