"""State dicts: what a module saves, and loading it again. Nothing is written until everything fits."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple

from symgrad.autograd import no_grad
from symgrad.nn.parameter import Parameter
from symgrad.tensor import Tensor

EXTRA = "_extra_state"
WRITES = "pending_writes"


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict` found missing, and what it had no place for."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def own_tensors(module: Any) -> dict[str, Tensor]:
    """The parameters and persistent buffers of the module itself."""
    buffers = {name: b for name, b in module._buffers.items() if name not in module._non_persistent_buffers_set}
    return {name: value for name, value in {**module._parameters, **buffers}.items() if value is not None}


class _Loading:
    """One call of `load_state_dict`: what was found while walking through the modules, and what is to be written."""

    def __init__(self, metadata: Any, assign: bool) -> None:
        self.metadata = metadata
        self.assign = assign
        self.missing: list[str] = []
        self.unexpected: list[str] = []
        self.errors: list[str] = []
        self.writes: list[Callable[[], object]] = []
        self.loaded: list[tuple[Any, IncompatibleKeys]] = []

    def walk(self, module: Any, entries: dict[str, Any], prefix: str) -> None:
        local = {} if self.metadata is None else self.metadata.get(prefix[:-1], {})
        local = {**local, "assign_to_params_buffers": self.assign, WRITES: self.writes}
        module._load_from_state_dict(entries, prefix, local, True, self.missing, self.unexpected, self.errors)
        below = _by_child(entries, prefix)
        for name, child in module._modules.items():
            if child is not None:
                self.walk(child, below.get(name, {}), f"{prefix}{name}.")
        if module._load_state_dict_post_hooks:
            self.loaded.append((module, IncompatibleKeys(self.missing, self.unexpected)))

    def finish(self, name: str, strict: bool) -> IncompatibleKeys:
        """Post hooks see the loaded values and may excuse keys; without any, keys that do not fit raise before anything is written."""
        if not self.loaded or self.errors:
            self._complain(name, strict)
        _write(self.writes)
        for module, keys in self.loaded:
            for hook in tuple(module._load_state_dict_post_hooks.values()):
                if hook(module, keys) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new values, if"
                        " incompatible_keys need to be modified, it should be done inplace."
                    )
        self._complain(name, strict)
        return IncompatibleKeys(self.missing, self.unexpected)

    def _complain(self, name: str, strict: bool) -> None:
        problems = list(self.errors)
        if strict and self.unexpected:
            problems.insert(0, f"Unexpected key(s) in state_dict: {_quoted(self.unexpected)}. ")
        if strict and self.missing:
            problems.insert(0, f"Missing key(s) in state_dict: {_quoted(self.missing)}. ")
            problems += _hints(self.missing, self.unexpected)
        if problems:
            raise RuntimeError("Error(s) in loading state_dict for {}:\n\t{}".format(name, "\n\t".join(problems)))


def _by_child(entries: dict[str, Any], prefix: str) -> dict[str, dict[str, Any]]:
    below: dict[str, dict[str, Any]] = {}
    for key, value in entries.items():
        if key.startswith(prefix):
            below.setdefault(key[len(prefix) :].partition(".")[0], {})[key] = value
    return below


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)


def _hints(missing: list[str], unexpected: list[str], most: int = 3) -> list[str]:
    """For the first missing keys, the unexpected one that looks most like it."""
    pairs = [(key, _like(key, unexpected)) for key in missing[:most]]
    meant = [f'"{found[0]}" for "{key}"' for key, found in pairs if found]
    return [f"Close matches: {', '.join(meant)}"] if meant else []


def _like(key: str, others: list[str]) -> list[str]:
    """What is the same with more or less in front of it, or is spelled nearly the same."""
    found = [other for other in others if other.endswith(f".{key}") or key.endswith(f".{other}")]
    return found or get_close_matches(key, others, 1, 0.8)


def load(module: Any, state_dict: Mapping[str, Any], strict: bool, assign: bool) -> IncompatibleKeys:
    """See `Module.load_state_dict`."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {state_dict.__class__}.")
    loading = _Loading(getattr(state_dict, "_metadata", None), assign)
    loading.walk(module, OrderedDict(state_dict), "")
    return loading.finish(module.__class__.__name__, strict)


def load_own(
    module: Any,
    state_dict: dict[str, Any],
    prefix: str,
    local_metadata: dict[str, Any],
    strict: bool,
    missing_keys: list[str],
    unexpected_keys: list[str],
    error_msgs: list[str],
) -> None:
    """See `Module._load_from_state_dict`."""
    for hook in tuple(module._load_state_dict_pre_hooks.values()):
        hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
    own = own_tensors(module)
    writes: list[Callable[[], object]] = []
    for name, target in own.items():
        key = prefix + name
        if key in state_dict:
            _load_one(module, name, target, key, state_dict[key], local_metadata.get("assign_to_params_buffers"), writes, error_msgs)
        elif strict:
            missing_keys.append(key)
    if _overrides(module, "set_extra_state"):
        if prefix + EXTRA in state_dict:
            writes.append(partial(module.set_extra_state, state_dict[prefix + EXTRA]))
        elif strict:
            missing_keys.append(prefix + EXTRA)
    if strict:
        unexpected_keys += [key for key in state_dict if key.startswith(prefix) and _is_stray(key[len(prefix) :], module, own)]
    _write(writes, local_metadata.get(WRITES))


def _load_one(
    module: Any, name: str, target: Tensor, key: str, value: Any, assign: bool | None, writes: list[Callable[[], object]], errors: list[str]
) -> None:
    """Plan the loading of one tensor, or say why it does not fit."""
    if not isinstance(value, Tensor):
        errors.append(
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint but received'
            f" {value.__class__}"
        )
        return
    if target.ndim == 0 and value.shape == (1,):  # files from before there were tensors without dimensions
        value = value[0]
    if value.shape != target.shape:
        errors.append(
            f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, the shape in current model is"
            f" {target.shape}."
        )
        return
    writes.append(partial(_assign, module, name, target, value) if assign else partial(target.copy_, value))


def _assign(module: Any, name: str, target: Tensor, value: Tensor) -> None:
    """The loaded tensor itself becomes the parameter or buffer; whether it requires grad is up to the module."""
    if isinstance(target, Parameter):
        if isinstance(value, Parameter):
            value.requires_grad_(target.requires_grad)
        else:
            value = Parameter(value, target.requires_grad)
    setattr(module, name, value)


def _is_stray(name: str, module: Any, own: dict[str, Tensor]) -> bool:
    """Whether there is no place for an entry of a state dict."""
    first, dot, _ = name.partition(".")
    if name == EXTRA:
        return not _overrides(module, "set_extra_state")
    return first not in (module._modules if dot else own)


def _overrides(module: Any, method: str) -> bool:
    """Whether the class of the module has a method of its own in place of Module's, which only raises."""
    return not getattr(getattr(type(module), method), "only_raises", False)


def _write(writes: list[Callable[[], object]], pending: list[Callable[[], object]] | None = None) -> None:
    """Write now, or when all modules have said what they will write."""
    if pending is not None:
        pending.extend(writes)
        return
    with no_grad():
        for write in writes:
            write()


def save(module: Any, destination: Any, prefix: str, keep_vars: bool) -> dict[str, Any]:
    """See `Module.state_dict`."""
    if destination is None:
        destination = OrderedDict()
        destination._metadata = OrderedDict()
    local = {"version": module._version}
    if hasattr(destination, "_metadata"):
        destination._metadata[prefix[:-1]] = local
    for hook in tuple(module._state_dict_pre_hooks.values()):
        hook(module, prefix, keep_vars)
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for hook in tuple(module._state_dict_hooks.values()):
        if hook(module, destination, prefix, local) is not None:
            raise RuntimeError("state_dict post-hook must return None")
    return destination  # type: ignore[no-any-return]


def save_own(module: Any, destination: Any, prefix: str, keep_vars: bool) -> None:
    """See `Module._save_to_state_dict`."""
    for name, value in own_tensors(module).items():
        destination[prefix + name] = value if keep_vars else value.detach()
    if _overrides(module, "get_extra_state"):
        destination[prefix + EXTRA] = module.get_extra_state()
