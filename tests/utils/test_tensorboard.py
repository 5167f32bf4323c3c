"""What SummaryWriter writes, read back with the real TensorBoard."""

from __future__ import annotations

import io
import re
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util.tensor_util import make_ndarray

import symgrad as sg
from symgrad import nn
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.utils.tensorboard import SummaryWriter


def read(folder):
    return EventAccumulator(str(folder)).Reload()


def graph_of(folder, model, args, **options):
    """The nodes of a drawn graph: name -> (op, inputs, shapes, dtypes)."""
    with SummaryWriter(folder) as writer:
        writer.add_graph(model, args, **options)
    return {n.name: (n.op, list(n.input), *types_of(n)) for n in read(folder).Graph().node}


def types_of(node):
    shapes = [tuple(d.size for d in shape.dim) for shape in node.attr["_output_shapes"].list.shape]
    dtype = node.attr["dtype"]
    return shapes, list(dtype.list.type) or [dtype.type]


FLOAT, DOUBLE, INT64 = 1, 2, 9


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(sg.randn(2, 1))
        self.b = nn.Parameter(sg.zeros(1, 1))

    def forward(self, x):
        return x @ self.w + self.b


def test_graph_of_a_module(tmp_path):
    assert graph_of(tmp_path, Net(), sg.rand(10, 2)) == {
        "input/x": ("IO Node", [], [(10, 2)], [FLOAT]),
        "Net/w": ("Parameter", [], [(2, 1)], [FLOAT]),
        "Net/matmul_1": ("matmul", ["input/x", "Net/w"], [(10, 1)], [FLOAT]),
        "Net/b": ("Parameter", [], [(1, 1)], [FLOAT]),
        "Net/add_1": ("add", ["Net/matmul_1", "Net/b"], [(10, 1)], [FLOAT]),
        "output/output.1": ("IO Node", ["Net/add_1"], [(10, 1)], [FLOAT]),
    }


def test_nodes_stand_in_the_module_that_computes_them(tmp_path):
    class Triple(nn.Module):
        def forward(self, x):
            return x * 3

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(2, 5), nn.Tanh())
            self.triple = Triple()
            self.register_buffer("scale", sg.ones(5))

        def forward(self, x):
            return self.triple(self.body(sg.sin(x))) * self.scale + self.body(sg.cos(x))

    nodes = graph_of(tmp_path, Outer(), sg.rand(4, 2))
    linear, tanh = "Outer/Sequential[body]/Linear[0]", "Outer/Sequential[body]/Tanh[1]"
    assert nodes[f"{linear}/linear_1"][:2] == ("linear", ["Outer/sin_1", f"{linear}/weight", f"{linear}/bias"])
    assert nodes[f"{linear}/linear_2"][1] == ["Outer/cos_1", f"{linear}/weight", f"{linear}/bias"]  # called twice, one module
    assert nodes[f"{tanh}/tanh_2"][1] == [f"{linear}/linear_2"]
    triple = "Outer/Triple[triple]"
    assert nodes[f"{triple}/mul_1"][1] == [f"{tanh}/tanh_1", f"{triple}/Const_1"]  # a number belongs to its reader
    assert nodes["Outer/mul_1"][1] == [f"{triple}/mul_1", "Outer/scale"]
    assert nodes["Outer/scale"][0] == "Buffer"


def test_graph_of_a_function_with_several_arguments_and_results(tmp_path):
    bias = sg.ones(2, dtype=sg.float64)

    def ranked(x, y):
        values, indices = sg.sort(x["left"] + y + bias)
        return values, indices

    nodes = graph_of(tmp_path, ranked, ({"left": sg.rand(3, 2, dtype=sg.float64)}, sg.rand(2, dtype=sg.float64)))
    assert nodes["input/x.left"] == ("IO Node", [], [(3, 2)], [DOUBLE])
    assert nodes["ranked/c1"] == ("Constant", [], [(2,)], [DOUBLE])
    assert nodes["ranked/sort_1"] == ("sort", ["ranked/add_2"], [(3, 2), (3, 2)], [DOUBLE, INT64])
    assert nodes["output/output.1"][1:] == (["ranked/sort_1"], [(3, 2)], [DOUBLE])
    assert nodes["output/output.2"][1:] == (["ranked/sort_1:1"], [(3, 2)], [INT64])


def test_attributes_of_an_op_can_be_read(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(lambda x: x.sum(dim=1, keepdim=True), sg.rand(3, 2))
    (node,) = [n for n in read(tmp_path).Graph().node if n.op == "sum"]
    assert node.name == "_lambda_/sum_1"  # brackets of that kind mean something to the page
    assert {k: node.attr[k].s for k in ("axis", "keepdims")} == {"axis": b"(1,)", "keepdims": b"True"}


def test_names_that_clash_stay_apart(tmp_path):
    class Clash(nn.Module):
        def __init__(self):
            super().__init__()
            self.add_1 = nn.Parameter(sg.ones(2))

        def forward(self, x):
            return x + self.add_1

    nodes = graph_of(tmp_path, Clash(), sg.rand(2))
    assert nodes["Clash/add_1"][0] == "Parameter"
    assert nodes["Clash/add_1_"][:2] == ("add", ["input/x", "Clash/add_1"])


def test_drawing_leaves_the_model_as_it_was(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    model[1].eval()
    modes = []
    handle = model.register_forward_hook(lambda module, args, output: modes.append(module.training))
    graph_of(tmp_path, model, [sg.rand(1, 2)])
    assert modes == [False]
    assert [m.training for m in model.modules()] == [True, True, False]
    handle.remove()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_a_failed_drawing_leaves_the_model_as_it_was(tmp_path):
    class Leaves(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    model = Leaves()
    with SummaryWriter(tmp_path) as writer, pytest.raises(sg.errors.TraceError, match="takes a value out of the graph"):
        writer.add_graph(model, sg.rand(2))
    assert model.training
    assert not model._forward_hooks


def test_shared_weights_are_one_node_and_missing_arguments_are_named(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    nodes = graph_of(tmp_path, model, sg.rand(1, 2))
    assert nodes["Sequential/Linear[1]/linear_1"][1] == ["Sequential/Linear[0]/linear_1", "Sequential/Linear[0]/weight"]
    with SummaryWriter(tmp_path) as writer, pytest.raises(TypeError, match="missing a required argument: 'input'"):
        writer.add_graph(model)


def test_a_frozen_graph(tmp_path):
    """That of a derivation: the value and its gradient."""
    graph = sg.derive(lambda x, w: (x @ w).tanh().sum(), wrt="w")(sg.spec((4, 3)), sg.spec(3)).graph
    nodes = graph_of(tmp_path, graph, None)
    assert nodes["input/x"] == ("IO Node", [], [(4, 3)], [FLOAT])
    assert nodes["Graph/matmul_1"] == ("matmul", ["input/x", "input/w"], [(4,)], [FLOAT])
    assert nodes["output/output.1"] == ("IO Node", ["Graph/sum_1"], [()], [FLOAT])
    assert nodes["output/output.2"][2] == [(3,)]
    readers = {name for _, inputs, *_ in nodes.values() for name in inputs}
    assert readers <= set(nodes)
    assert len(nodes) == len(graph) + 2
    with SummaryWriter(tmp_path) as writer, pytest.raises(TypeError, match="a frozen graph has its inputs"):
        writer.add_graph(graph, sg.ones(3))


def test_a_frozen_graph_with_several_outputs_and_odd_names(tmp_path):
    x = input_value(0, (2, 3), np.float64)
    values, indices = xp.max_along(x, axis=1, keepdims=False)
    nodes = graph_of(tmp_path, Graph([x], [values, indices], ["a/b <c>"]), None)
    assert nodes["input/a_b__c_"][0] == "IO Node"
    assert nodes["output/output.1"][1] == ["Graph/max_along_1"]
    assert nodes["output/output.2"][1] == ["Graph/max_along_1:1"]


def test_verbose_prints_the_graph(tmp_path, capsys):
    graph_of(tmp_path, Net(), sg.rand(10, 2), verbose=True)
    assert "= matmul(%x, %c1) : float32[10, 1]" in capsys.readouterr().out


def test_scalars(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        for step, value in enumerate((0.5, sg.tensor([1.5], requires_grad=True), np.float32(2.5), sg.tensor(3.5, dtype=sg.bfloat16))):
            writer.add_scalar("loss", value, step, walltime=100.0 + step)
    written = [(e.wall_time, e.step, e.value) for e in read(tmp_path).Scalars("loss")]
    assert written == [(100, 0, 0.5), (101, 1, 1.5), (102, 2, 2.5), (103, 3, 3.5)]


def test_scalars_as_tensors(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("single", 0.1, sg.tensor(7), new_style=True)
        writer.add_scalar("double", 0.1, new_style=True, double_precision=True)
    events = read(tmp_path)
    (single,), (double,) = events.Tensors("single"), events.Tensors("double")
    assert (single.step, make_ndarray(single.tensor_proto)) == (7, np.float32(0.1))
    assert make_ndarray(double.tensor_proto) == 0.1


def test_only_one_number_is_a_scalar(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        with pytest.raises(AssertionError, match="Tensor should contain one element"):
            writer.add_scalar("loss", sg.ones(2))
        with pytest.raises(AssertionError, match="Tensor should contain one element"):
            writer.add_scalars("loss", {"a": 1.0, "b": sg.ones(2)})
    assert len(list(tmp_path.iterdir())) == 1


def test_several_curves_are_runs_of_their_own(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        for step in range(2):
            writer.add_scalars("train/loss", {"a": step, "b": sg.tensor(step + 0.5)}, step)
    for run, values in (("train_loss_a", [0, 1]), ("train_loss_b", [0.5, 1.5])):
        assert [e.value for e in read(tmp_path / run).Scalars("train/loss")] == values


def test_histogram(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("w", sg.tensor([0.0, 1.0, 1.0, 3.0]), 5, bins=[-2, -1, 0, 1, 2, 3, 4])
        writer.add_histogram("few", np.arange(10.0), bins=10, max_bins=4)
        writer.add_histogram("default", sg.tensor([-1.0, 0.0, 2.0]))
    events = read(tmp_path)
    (event,) = events.Histograms("w")
    w = event.histogram_value
    assert (event.step, w.min, w.max, w.num, w.sum, w.sum_squares) == (5, 0, 3, 4, 5, 11)
    assert (w.bucket_limit, w.bucket) == ([0, 1, 2, 3, 4], [0, 1, 2, 0, 1])
    few = events.Histograms("few")[0].histogram_value
    assert few.bucket == [0, 2, 2, 2, 2, 2]
    np.testing.assert_allclose(few.bucket_limit, [0, 1.8, 3.6, 5.4, 7.2, 9])
    default = events.Histograms("default")[0].histogram_value
    assert sum(default.bucket) == 3
    assert default.bucket_limit[0] <= -1 < default.bucket_limit[1]


def test_default_bins_reach_from_the_smallest_to_the_largest_numbers(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("far", sg.tensor([-9e19, -1e-12, 0.0, 1e-12, 9e19], dtype=sg.float64))
    far = read(tmp_path).Histograms("far")[0].histogram_value
    assert sum(far.bucket) == 5
    limits = np.array(far.bucket_limit)
    np.testing.assert_allclose(limits[limits > 0][1:] / limits[limits > 0][:-1], 1.1)
    np.testing.assert_array_equal(limits, -limits[::-1])
    assert limits[limits > 0][0] == 1e-12


@pytest.mark.parametrize(("values", "message"), [([], "no element"), ([9.0], "no value lies between 0 and 1")])
def test_histogram_of_nothing(tmp_path, values, message):
    with SummaryWriter(tmp_path) as writer, pytest.raises(ValueError, match=message):
        writer.add_histogram("w", np.array(values), bins=[0, 1])


def test_text(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_text("note", "# ∂L/∂w", 3)
    events = read(tmp_path)
    (event,) = events.Tensors("note/text_summary")
    assert (event.step, make_ndarray(event.tensor_proto)[0].decode()) == (3, "# ∂L/∂w")
    assert "note/text_summary" in events.PluginTagToContent("text")


def pixels_of(event):
    from PIL import Image

    with Image.open(io.BytesIO(event.encoded_image_string)) as image:
        assert image.format == "PNG"
        pixels = np.asarray(image)
    assert (event.height, event.width) == pixels.shape[:2]
    return pixels


def test_image(tmp_path):
    pixels = np.arange(24, dtype=np.uint8).reshape(3, 2, 4)
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("bytes", pixels)
        writer.add_image("floats", sg.tensor(pixels / 255.0).permute(2, 1, 0), dataformats="WHC")
        writer.add_image("grey", pixels[0], dataformats="hw")
        writer.add_image("half", sg.tensor([[[-1.0, 0.0], [0.5, 2.0]]], dtype=sg.bfloat16, requires_grad=True))
    events = read(tmp_path)
    for tag, expected in (("bytes", pixels), ("floats", pixels), ("grey", pixels[[0, 0, 0]])):
        np.testing.assert_allclose(pixels_of(*events.Images(tag)), expected.transpose(1, 2, 0), atol=1, err_msg=tag)
    np.testing.assert_array_equal(pixels_of(*events.Images("half"))[..., 0], [[0, 0], [127, 255]])


@pytest.mark.parametrize("dataformats", ["CHW", "H", "HH", "HC", "HX", "HWCNN"])
def test_formats_that_do_not_fit(tmp_path, dataformats):
    with SummaryWriter(tmp_path) as writer, pytest.raises(AssertionError, match="size of input tensor and input format are different"):
        writer.add_image("grey", np.zeros((2, 2)), dataformats=dataformats)


def test_no_images(tmp_path):
    with SummaryWriter(tmp_path) as writer, pytest.raises(AssertionError, match=r"tensor shape: \(0, 3, 2, 2\)"):
        writer.add_images("none", np.zeros((0, 3, 2, 2)))


def test_images_stand_in_rows_of_eight(tmp_path):
    images = np.arange(1, 11, dtype=np.uint8).reshape(10, 1, 1, 1).repeat(2, 2).repeat(3, 3)  # of height 2 and width 3
    with SummaryWriter(tmp_path) as writer:
        writer.add_images("ten", images, 4)
        writer.add_images("two", sg.tensor(images[:2] / 255.0).permute(0, 2, 3, 1), dataformats="NHWC")
    events = read(tmp_path)
    ten = pixels_of(*events.Images("ten"))
    rows = np.array([[1, 2, 3, 4, 5, 6, 7, 8], [9, 10, 0, 0, 0, 0, 0, 0]])
    np.testing.assert_array_equal(ten, np.kron(rows, np.ones((2, 3)))[..., np.newaxis].repeat(3, 2))
    np.testing.assert_allclose(pixels_of(*events.Images("two"))[..., 0], [[1, 1, 1, 2, 2, 2]] * 2, atol=1)
    assert events.Images("ten")[0].step == 4


def test_figures(tmp_path):
    from matplotlib import pyplot

    def figure(color):
        made = pyplot.figure(figsize=(2, 1), dpi=50, facecolor=color)
        made.add_axes((0, 0, 0.5, 1)).set_axis_off()
        return made

    kept, red = figure("blue"), figure("red")
    canvas = kept.canvas
    with SummaryWriter(tmp_path) as writer:
        writer.add_figure("kept", kept, 3, close=False)
        assert pyplot.fignum_exists(kept.number)
        assert kept.canvas is canvas
        writer.add_figure("both", [kept, red])
    assert not pyplot.fignum_exists(kept.number)
    assert not pyplot.fignum_exists(red.number)
    events = read(tmp_path)
    assert (pixels_of(*events.Images("kept")) == [0, 0, 255]).all()
    both = pixels_of(*events.Images("both"))
    assert both.shape == (50, 200, 3)
    assert (both[:, 100:] == [255, 0, 0]).all()


def test_hyperparameters(tmp_path):
    from tensorboard.plugins.hparams.api_pb2 import DATA_TYPE_FLOAT64, DATA_TYPE_STRING, STATUS_SUCCESS
    from tensorboard.plugins.hparams.metadata import (
        parse_experiment_plugin_data,
        parse_session_end_info_plugin_data,
        parse_session_start_info_plugin_data,
    )

    chosen = {"lr": 0.1, "layers": sg.tensor(3), "bias": True, "name": "a", "unset": None}
    with SummaryWriter(tmp_path) as writer:
        domains = {"lr": [0.1, 0.2], "name": ["a", "b"]}
        writer.add_hparams(chosen, {"accuracy": sg.tensor(0.9), "loss": 2}, domains, run_name="first", global_step=7)
        writer.add_hparams({}, {})
    events = read(tmp_path / "first")
    assert [(e.step, e.value) for tag in ("accuracy", "loss") for e in events.Scalars(tag)] == [(7, np.float32(0.9)), (7, 2)]
    contents = events.PluginTagToContent("hparams")
    start = parse_session_start_info_plugin_data(contents["_hparams_/session_start_info"])
    assert {k: v.string_value or v.number_value for k, v in start.hparams.items()} == {"lr": 0.1, "layers": 3, "bias": 1, "name": "a"}
    experiment = parse_experiment_plugin_data(contents["_hparams_/experiment"])
    assert [m.name.tag for m in experiment.metric_infos] == ["accuracy", "loss"]
    assert [i.type for i in experiment.hparam_infos] == [DATA_TYPE_FLOAT64] * 3 + [DATA_TYPE_STRING]
    assert parse_session_end_info_plugin_data(contents["_hparams_/session_end_info"]).status == STATUS_SUCCESS
    domains = {info.name: [v.string_value or v.number_value for v in info.domain_discrete.values] for info in experiment.hparam_infos}
    assert domains == {"lr": [0.1, 0.2], "layers": [], "bias": [], "name": ["a", "b"]}
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([], {}), TypeError, "hparam_dict should be a dictionary, nothing logged"),
        (({}, None), TypeError, "metric_dict should be a dictionary, nothing logged"),
        (({}, {}, [1]), TypeError, "hparam_domain_discrete should be a dictionary, nothing logged"),
        (({"lr": 0.1}, {}, {"lr": ["a"]}), TypeError, r"hparam_domain_discrete\[lr\] should be a list of same type as hparam_dict\[lr\]"),
        (({"lr": [0.1]}, {}), ValueError, "value should be one of int, float, str, bool, or torch.Tensor"),
        (({}, {"loss": sg.ones(2)}), AssertionError, "Tensor should contain one element"),
    ],
)
def test_hyperparameters_that_cannot_be_shown(tmp_path, arguments, error, message):
    with SummaryWriter(tmp_path) as writer, pytest.raises(error, match=message):
        writer.add_hparams(*arguments)
    assert not any(path.is_dir() for path in tmp_path.iterdir())


def test_several_threads_write_to_one_writer(tmp_path):
    with SummaryWriter(tmp_path) as writer:

        def work(thread):
            for step in range(50):
                writer.add_scalar(f"own {thread}", step, step)
                writer.add_scalars("shared", {"a": thread}, step)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events = read(tmp_path)
    for i in range(8):
        assert [e.value for e in events.Scalars(f"own {i}")] == list(range(50))
    (file,) = (tmp_path / "shared_a").iterdir()
    values = [e.summary.value for e in EventFileLoader(str(file)).Load()]
    assert sum(map(len, values)) == 400


def test_flush_writes_before_close(tmp_path):
    with SummaryWriter(tmp_path, flush_secs=1000) as writer:
        writer.add_scalar("loss", 1.0)
        writer.flush()
        assert [e.value for e in read(tmp_path).Scalars("loss")] == [1.0]


def test_a_closed_writer_opens_a_new_file(tmp_path):
    writer = SummaryWriter(tmp_path, filename_suffix=".mine")
    writer.close()
    writer.close()
    writer.add_scalar("loss", 1.0)
    writer.close()
    assert len(list(tmp_path.glob("events.out.tfevents.*.mine"))) == 2
    assert writer.get_logdir() == tmp_path


def test_purged_steps_are_hidden(tmp_path):
    with SummaryWriter(tmp_path) as crashed:
        for step in range(4):
            crashed.add_scalar("loss", float(step), step, walltime=step + 1)
    with SummaryWriter(tmp_path, purge_step=2, filename_suffix=".resumed") as resumed:
        resumed.add_scalar("loss", 20.0, 2, walltime=9)
    (file,) = tmp_path.glob("*.resumed")
    first = [e for e in EventFileLoader(str(file)).Load() if e.WhichOneof("what") == "session_log"]
    assert [(e.step, e.session_log.status) for e in first] == [(2, 1)]
    assert [(e.step, e.value) for e in read(tmp_path).Scalars("loss")] == [(0, 0), (1, 1), (2, 20)]


def test_default_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with SummaryWriter(comment="_lr=1") as writer:
        assert writer.get_logdir().endswith("_lr=1")
    (folder,) = (tmp_path / "runs").iterdir()
    assert re.fullmatch(rf"[A-Z][a-z][a-z]\d\d_\d\d-\d\d-\d\d_{re.escape(socket.gethostname())}_lr=1", folder.name)


def test_without_the_package_the_error_names_the_extra():
    code = "import sys; sys.modules['tensorboard'] = None; import symgrad.utils.tensorboard"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: symgrad.utils.tensorboard needs the package tensorboard: pip install 'symgrad[tensorboard]'" in done.stderr
