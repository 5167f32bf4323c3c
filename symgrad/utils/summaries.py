"""What TensorBoard shows, as its protocol buffers: numbers, histograms, texts, hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, repeat, takewhile
from operator import mul
from typing import Any

import numpy as np
from google.protobuf.struct_pb2 import ListValue, Value
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.hparams import api_pb2, metadata as hparams, plugin_data_pb2
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

from symgrad import dtypes
from symgrad.errors import require
from symgrad.tensor import Tensor
from symgrad.typing import Array

_EDGES = list(takewhile(lambda edge: edge < 1e20, accumulate(repeat(1.1), mul, initial=1e-12)))
TENSORFLOW_BINS = [-edge for edge in reversed(_EDGES)] + [0.0] + _EDGES
"""Each bin is a tenth wider than the one before it, away from zero on both sides."""


def array(x: Any) -> Array:
    """The numbers of a tensor, an array or a list."""
    if not isinstance(x, Tensor):
        return np.asarray(x)
    x = x.detach()
    return (x.float() if x.dtype == dtypes.bfloat16 else x).numpy()  # type: ignore[no-any-return]


def number(x: Any) -> float:
    one = array(x).squeeze()
    require(
        one.ndim == 0,
        f"Tensor should contain one element (0 dimensions). Was given size: {one.size} and {one.ndim} dimensions.",
        AssertionError,
    )
    return float(one)


def scalar(tag: str, value: Any, new_style: bool = False, double_precision: bool = False) -> Any:
    """A number; in the new style it is a tensor, in double precision if asked for."""
    if not new_style:
        return Summary.Value(tag=tag, simple_value=number(value))
    tensor = (
        TensorProto(dtype="DT_DOUBLE", double_val=[number(value)])
        if double_precision
        else TensorProto(dtype="DT_FLOAT", float_val=[number(value)])
    )
    return Summary.Value(tag=tag, tensor=tensor, metadata=_plugin("scalars"))


def text(tag: str, content: str) -> Any:
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    tensor = TensorProto(dtype="DT_STRING", string_val=[content.encode()], tensor_shape=shape)
    return Summary.Value(tag=f"{tag}/text_summary", metadata=_plugin("text", TextPluginData(version=0)), tensor=tensor)


def histogram(tag: str, values: Array, bins: Any, max_bins: int | None) -> Any:
    """How values are distributed; `bins` as in numpy.histogram, thinned out to about `max_bins`."""
    require(values.size, "The input has no element.", ValueError)
    counts, limits = np.histogram(values, bins=TENSORFLOW_BINS if isinstance(bins, str) and bins == "tensorflow" else bins)
    if max_bins is not None and len(counts) > max_bins:
        every = len(counts) // max_bins
        counts = np.add.reduceat(counts, np.arange(0, len(counts), every))
        limits = np.append(limits[:-1:every], limits[-1])
    filled = np.flatnonzero(counts)
    require(filled.size, f"The histogram is empty: no value lies between {limits[0]} and {limits[-1]}.", ValueError)
    first, end = filled[0], filled[-1] + 1
    proto = HistogramProto(
        min=values.min(),
        max=values.max(),
        num=values.size,
        sum=values.sum(),
        sum_squares=values.dot(values),
        bucket_limit=limits[first : end + 1].tolist(),
        bucket=[0, *counts[first:end].tolist()],  # a bin is known by its right limit: an empty one gives the left limit of the first
    )
    return Summary.Value(tag=tag, histo=proto)


def hyperparameters(chosen: Mapping[str, Any], metrics: Mapping[str, Any], domains: Mapping[str, Any]) -> list[Any]:
    """What was tried, which numbers tell how good it was, and that the run has ended: the three parts that the plugin reads."""
    chosen = {name: number(value) if isinstance(value, Tensor) else value for name, value in chosen.items() if value is not None}
    for name, domain in domains.items():
        same = isinstance(domain, list) and name in chosen and all(isinstance(value, type(chosen[name])) for value in domain)
        require(same, f"parameter: hparam_domain_discrete[{name}] should be a list of same type as hparam_dict[{name}].", TypeError)
    infos = [
        api_pb2.HParamInfo(
            name=name,
            type="DATA_TYPE_STRING" if isinstance(value, str) else "DATA_TYPE_FLOAT64",
            domain_discrete=ListValue(values=map(_value, domains[name])) if name in domains else None,
        )
        for name, value in chosen.items()
    ]
    experiment = api_pb2.Experiment(
        hparam_infos=infos, metric_infos=[api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag)) for tag in metrics]
    )
    start = plugin_data_pb2.SessionStartInfo(hparams={name: _value(value) for name, value in chosen.items()})
    end = plugin_data_pb2.SessionEndInfo(status="STATUS_SUCCESS")
    parts = {
        hparams.EXPERIMENT_TAG: {"experiment": experiment},
        hparams.SESSION_START_INFO_TAG: {"session_start_info": start},
        hparams.SESSION_END_INFO_TAG: {"session_end_info": end},
    }
    contents = {tag: plugin_data_pb2.HParamsPluginData(version=hparams.PLUGIN_DATA_VERSION, **part) for tag, part in parts.items()}
    return [Summary.Value(tag=tag, metadata=_plugin(hparams.PLUGIN_NAME, content)) for tag, content in contents.items()]


def _value(value: Any) -> Any:
    require(isinstance(value, (int, float, str)), "value should be one of int, float, str, bool, or torch.Tensor", ValueError)
    return Value(string_value=value) if isinstance(value, str) else Value(number_value=value)


def _plugin(name: str, content: Any = None) -> Any:
    data = b"" if content is None else content.SerializeToString()
    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=name, content=data))
