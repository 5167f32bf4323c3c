"""Modules, containers, initial values and nn.utils beside PyTorch: the same script in both, the same text out."""

from __future__ import annotations

import copy
import re
import warnings
from collections import OrderedDict

import pytest
from module_programs import small

import symgrad as sg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer


LINES = {
    "repr": (
        "net, nn.Sequential(net, nn.Sequential(nn.ReLU(), nn.ReLU())), nn.ModuleList([nn.Sequential(nn.ReLU()), nn.ReLU()]), "
        "nn.ModuleDict({'a': net})"
    ),
    "repr of repeats": (
        "nn.ModuleList([nn.Linear(2, 2)] * 3 + [nn.ReLU(), nn.Linear(2, 2)]), nn.Sequential(nn.ReLU(), nn.ReLU()), nn.ModuleDict()"
    ),
    "repr of parameters": (
        "nn.ParameterList([torch.ones(2, 3), torch.ones(1)]), nn.ParameterDict({'b': torch.ones(2), 'a': torch.ones(1, 2)})"
    ),
    "repr of other things": "nn.ParameterList([3, torch.ones(2, dtype=torch.float64)]), nn.ParameterList(), nn.ParameterDict({'a': 3})",
    "repr of a parameter": (
        "nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2), requires_grad=False), nn.Parameter(), nn.Buffer(torch.ones(1))"
    ),
    "names": "[n for n, _ in net.named_parameters()], [n for n, _ in net.named_buffers('p')], [n for n, _ in net.named_modules()]",
    "names of one level": (
        "[n for n, _ in net.named_parameters('p', recurse=False)], [n for n, _ in net.named_parameters('p', False, False)]"
    ),
    "duplicates": "[n for n, _ in net.named_parameters(remove_duplicate=False)], [n for n, _ in net.named_modules(remove_duplicate=False)]",
    "with a prefix": "[n for n, _ in net.named_modules(prefix='p')], [n for n, _ in net.named_children()], len(list(net.modules()))",
    "state": (
        "list(net.state_dict()), list(net.state_dict(prefix='p.')), dict(net.state_dict()._metadata), "
        "net.state_dict(keep_vars=True)['scale'] is net.scale"
    ),
    "state into": "list(net.state_dict(destination=OrderedDict(a=1), prefix='b.'))",
    "state by position": "list(net.state_dict(OrderedDict(a=1), 'b.', True))",
    "state of an empty module": "nn.ReLU().state_dict(), list(nn.Sequential(nn.ReLU()).state_dict()._metadata.items())",
    "load": "net.load_state_dict(net.state_dict())",
    "load nothing": "net.load_state_dict({})",
    "load all wrong": (
        "net.load_state_dict({'zz': torch.ones(1), 'first.q': 1, 'first.weight': torch.ones(2, 2), 'scale': 3, 'void.x': 2, "
        "'absent': 4})"
    ),
    "load loosely": "net.load_state_dict({'zz': torch.ones(1), 'first.q.r': 1, 'scale': torch.ones(4)}, strict=False)",
    "load misshapen loosely": "net.load_state_dict({'scale': torch.ones(1)}, strict=False)",
    "load a hidden buffer": "net.load_state_dict({**net.state_dict(), 'hidden': torch.ones(1)})",
    "load what is no dict": "net.load_state_dict(3)",
    "load what is no tensor": "net.load_state_dict({**net.state_dict(), 'scale': [1, 2, 3, 4]})",
    "extra state": "nn.Module().get_extra_state()",
    "modes": "net.eval().training, net.first.training, net.train().first.training, net.train('yes')",
    "unwanted arguments": "nn.Module(3)",
    "unwanted keywords": "nn.Module(a=3)",
    "to": (
        "net.to(torch.float64).scale.dtype, net.to('cpu', torch.float32).count.dtype, net.to(torch.ones(1, "
        "dtype=torch.float16)).scale.dtype"
    ),
    "to by keywords": (
        "net.to(dtype=torch.float64, non_blocking=True).scale.dtype, net.to(device='cpu').scale.dtype, "
        "net.to(tensor=torch.ones(1)).scale.dtype"
    ),
    "to integers": "net.to(torch.int64)",
    "to complex": "net.to(torch.complex64).scale.dtype, net.count.dtype",
    "casts": "net.double().scale.dtype, net.half().scale.dtype, net.bfloat16().count.dtype, net.float().scale.dtype",
    "type": "net.type(torch.float64).scale.dtype, net.type('torch.FloatTensor').scale.dtype",
    "type of integers": "net.type(torch.int64)",
    "to_empty": "net.to_empty(device='cpu').scale.shape, net.scale.requires_grad",
    "requires_grad": "[p.requires_grad for p in net.requires_grad_(False).parameters()]",
    "submodule": (
        "net.get_submodule('first') is net.first, net.get_submodule('') is net, net.get_parameter('first.bias').shape, "
        "net.get_buffer('count')"
    ),
    "no submodule": "net.get_submodule('zero.a')",
    "no module at the path": "net.get_submodule('plain')",
    "no parameter": "net.get_parameter('first.zero')",
    "a buffer is no parameter": "net.get_parameter('count')",
    "a parameter is no buffer": "net.get_buffer('scale')",
    "set submodule": (
        "net.set_submodule('first', nn.ReLU()), net.set_submodule('new', nn.Tanh()), [type(m).__name__ for m in net.modules()]"
    ),
    "set no submodule": "net.set_submodule('first', 3)",
    "set submodule nowhere": "net.set_submodule('', nn.ReLU())",
    "set submodule strictly": "net.set_submodule('new', nn.ReLU(), strict=True)",
    "set submodule over a parameter": "net.set_submodule('scale', nn.ReLU())",
    "missing attribute": "net.zero",
    "dir": (
        "[n for n in dir(nn.Sequential(net)) if n.isdigit()], [n for n in ('scale', 'count', 'first', 'plain', 'absent') if n in "
        "dir(net)]"
    ),
    "early parameter": "type('M', (nn.Module,), {'__init__': lambda self: setattr(self, 'p', nn.Parameter(torch.ones(1)))})()",
    "early module": "type('M', (nn.Module,), {'__init__': lambda self: setattr(self, 'p', nn.Tanh())})()",
    "early buffer": "type('M', (nn.Module,), {'__init__': lambda self: self.register_buffer('p', torch.ones(1))})()",
    "tensor as parameter": "setattr(net, 'scale', torch.ones(4))",
    "parameter as buffer": (
        "setattr(net, 'count', nn.Parameter(torch.ones(4))), [n for n, _ in net.named_parameters()], [n for n, _ in "
        "net.named_buffers()]"
    ),
    "tensor as buffer": "setattr(net, 'hidden', torch.ones(4)), list(net.state_dict())",
    "buffer": (
        "setattr(net, 'new', nn.Buffer(torch.ones(4))), setattr(net, 'gone', nn.Buffer(torch.ones(4), persistent=False)), "
        "list(net.state_dict()), [n for n, _ in net.named_buffers()]"
    ),
    "buffer over a buffer": "setattr(net, 'hidden', nn.Buffer(torch.ones(4))), list(net.state_dict())",
    "number as module": "setattr(net, 'first', 3)",
    "module as parameter": "setattr(net, 'scale', nn.ReLU()), [n for n, _ in net.named_parameters()]",
    "number as buffer": "setattr(net, 'count', 3)",
    "dict as parameter": "setattr(net, 'scale', {})",
    "nothing in their place": (
        "[setattr(net, n, None) for n in ('scale', 'count', 'first')], [n for n, _ in net.named_parameters()], "
        "list(net.state_dict())"
    ),
    "taken buffer": "net.register_buffer('forward', torch.ones(1))",
    "taken parameter": "net.register_parameter('count', None)",
    "taken module": "net.add_module('scale', None)",
    "dotted buffer": "net.register_buffer('a.b', torch.ones(1))",
    "dotted parameter": "net.register_parameter('a.b', None)",
    "dotted module": "net.add_module('a.b', None)",
    "unnamed buffer": "net.register_buffer('', torch.ones(1))",
    "unnamed module": "net.add_module('', None)",
    "number as a name": "net.register_parameter(3, None)",
    "number as registered buffer": "net.register_buffer('b', 3)",
    "number as registered parameter": "net.register_parameter('b', 3)",
    "tensor as registered parameter": "net.register_parameter('b', torch.ones(1))",
    "number as added module": "net.add_module('b', 3)",
    "recorded parameter": "net.register_parameter('b', net.scale * 2)",
    "no forward": "nn.Module()(1)",
    "isinstance": (
        "isinstance(net.scale, nn.Parameter), isinstance(torch.ones(1), nn.Parameter), isinstance(nn.Buffer(torch.ones(1)), "
        "nn.Buffer), isinstance(torch.ones(1), nn.Buffer), type(nn.Buffer(torch.ones(1))) is torch.Tensor"
    ),
    "parameter of a parameter": (
        "nn.Parameter(net.scale).is_leaf, nn.Parameter(net.scale * 2).grad_fn, nn.Parameter(net.scale).data_ptr() == "
        "net.scale.data_ptr()"
    ),
    "integer parameter": "nn.Parameter(torch.ones(2, dtype=torch.int64))",
    "frozen integers": "nn.Parameter(torch.ones(2, dtype=torch.int64), requires_grad=False)",
    "copied parameter": "copy.deepcopy(net.scale), type(copy.deepcopy(net.scale)).__name__",
    "sequential slices": "seq[1:], seq[-1], seq[::2], len(seq[:0]), type(seq[:1]).__name__",
    "sequential out of range": "seq[7]",
    "sequential set": "seq.__setitem__(0, nn.ReLU()), seq",
    "sequential set number": "seq.__setitem__(0, 3)",
    "sequential delete": "seq.__delitem__(1), seq, seq.__delitem__(slice(0, 1)), seq",
    "sequential grow": "seq.append(nn.ReLU()), seq.insert(0, nn.Tanh()), seq.insert(-1, nn.Flatten()), seq.extend([nn.Sigmoid()])",
    "sequential insert too far": "seq.insert(9, nn.ReLU())",
    "sequential insert number": "seq.insert(0, 3)",
    "sequential pop": "seq.pop(0), seq, seq.pop(slice(0, 1)), seq",
    "sequential sum": "seq + nn.Sequential(nn.ReLU()), seq * 2, 2 * nn.Sequential(nn.ReLU())",
    "sequential plus list": "seq + [nn.ReLU()]",
    "sequential times zero": "seq * 0",
    "sequential times half": "seq * 0.5",
    "sequential in place": "seq.__iadd__(nn.Sequential(nn.ReLU())), seq.__imul__(2)",
    "sequential by name": "nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh())), nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh()))[1:]",
    "sequential of numbers": "nn.Sequential(3)",
    "list": "lst[1], lst[-1], lst[:1], len(lst), nn.ReLU() in lst, lst[0] in lst",
    "list grow": (
        "lst.append(nn.ReLU()), lst.insert(0, nn.Sigmoid()), lst.extend([nn.ReLU()]), lst, lst.pop(1), lst, lst + [nn.Tanh()], "
        "lst.__iadd__([nn.ReLU()])"
    ),
    "list of numbers": "nn.ModuleList([3])",
    "list of nothing": "nn.ModuleList(3)",
    "list is not called": "lst(3)",
    "list delete": "lst.__delitem__(0), lst, lst.__delitem__(slice(None)), lst",
    "dict": "dct['a'], list(dct), list(dct.keys()), list(dct.items()), list(dct.values()), 'a' in dct, len(dct), dct.pop('a'), dct",
    "dict update": (
        "dct.update({'c': nn.ReLU()}), dct.update([('d', nn.Tanh())]), dct.update(nn.ModuleDict({'e': nn.Tanh()})), dct, "
        "dct.clear(), dct"
    ),
    "dict missing": "dct['zero']",
    "dict of numbers": "nn.ModuleDict({'a': 3})",
    "dict of keys": "nn.ModuleDict({3: nn.ReLU()})",
    "dict taken": "nn.ModuleDict({'keys': nn.ReLU()})",
    "dict update number": "dct.update(3)",
    "dict update triples": "dct.update([(1, 2, 3)])",
    "dict update numbers": "dct.update([3])",
    "parameter list": (
        "pl[0], pl[-1], len(pl), [n for n, _ in pl.named_parameters()], pl[1:], pl.append(torch.zeros(1)), "
        "pl.extend([torch.ones(2)]), list(pl.state_dict())"
    ),
    "parameter list set": "pl.__setitem__(0, torch.zeros(3)), pl, pl.__iadd__([torch.ones(1)])",
    "parameter list out of range": "pl[4]",
    "parameter list of a tensor": "nn.ParameterList(torch.ones(2))",
    "parameter list is not called": "pl(3)",
    "parameter dict": (
        "list(pd), list(pd.keys()), pd['a'], 'b' in pd, len(pd), pd.get('z', 3), pd.setdefault('q', torch.ones(1)), pd, [n for n, "
        "_ in pd.named_parameters()]"
    ),
    "parameter dict take": (
        "pd.pop('a'), pd.popitem(), pd, pd.update({'y': torch.ones(1), 'x': torch.ones(1)}), pd.copy(), list(reversed(pd)), "
        "pd.clear(), pd"
    ),
    "parameter dict union": (
        "pd | nn.ParameterDict({'z': torch.ones(1)}), pd.__ior__(nn.ParameterDict({'b': torch.zeros(1)})), pd.fromkeys(['k'], 3)"
    ),
    "parameter dict numbers": "pd[3]",
    "parameter dict dotted": "nn.ParameterDict({'a.b': torch.ones(1)})",
    "parameter dict is not called": "pd(3)",
    "gains": (
        "[nn.init.calculate_gain(n) for n in ('linear', 'relu', 'tanh', 'sigmoid', 'selu', 'leaky_relu', 'conv2d', "
        "'conv_transpose3d')]"
    ),
    "leaky gain": "nn.init.calculate_gain('leaky_relu', 0.3), nn.init.calculate_gain('leaky_relu', 2)",
    "bad leaky gain": "nn.init.calculate_gain('leaky_relu', True)",
    "no such gain": "nn.init.calculate_gain('zero')",
    "no such convolution": "nn.init.calculate_gain('conv9d')",
    "fans of a vector": "nn.init.xavier_uniform_(torch.ones(3))",
    "no such mode": "nn.init.kaiming_uniform_(torch.ones(3, 3), mode='fan')",
    "eye of a vector": "nn.init.eye_(torch.ones(3))",
    "dirac of a matrix": "nn.init.dirac_(torch.ones(3, 3))",
    "dirac of odd groups": "nn.init.dirac_(torch.ones(3, 3, 3), groups=2)",
    "orthogonal vector": "nn.init.orthogonal_(torch.ones(3))",
    "sparse of a vector": "nn.init.sparse_(torch.ones(3), 0.1)",
    "vectors": "nn.utils.parameters_to_vector(net.parameters()).shape, nn.utils.parameters_to_vector([net.scale])",
    "vector of nothing": "nn.utils.parameters_to_vector([])",
    "vector that is a list": "nn.utils.vector_to_parameters([1], net.parameters())",
}  # fmt: skip

EXACT_TYPE_ONLY = {  # here the texts differ: ours say more, or what stands in them is not the same in the two
    "extra state", "state by position", "sequential insert number", "dict update numbers", "parameter dict numbers",
    "vector of nothing", "orthogonal vector",
}  # fmt: skip


def names(module):
    nn = module.nn
    module.manual_seed(0)
    return {
        "torch": module, "nn": nn, "net": small(module), "OrderedDict": OrderedDict, "copy": copy,
        "seq": nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)), "lst": nn.ModuleList([nn.Linear(2, 3), nn.Tanh()]),
        "dct": nn.ModuleDict({"b": nn.Linear(2, 3), "a": nn.Tanh()}), "pl": nn.ParameterList([module.ones(2), module.ones(3)]),
        "pd": nn.ParameterDict({"b": module.ones(2), "a": module.ones(3)}),
    }  # fmt: skip


def said(module, script):
    """What a script gives or how it fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return repr(eval(script, names(module)))
        except Exception as error:
            return type(error).__name__, re.sub(r"'(torch|symgrad)\.nn\.(modules\.)?", "'nn.", str(error))


@pytest.mark.parametrize("name", LINES)
def test_line(name):
    mine, reference = said(sg, LINES[name]), said(torch, LINES[name])
    if name in EXACT_TYPE_ONLY and isinstance(reference, tuple):
        mine, reference = mine[0], reference[0]
    assert mine == reference
