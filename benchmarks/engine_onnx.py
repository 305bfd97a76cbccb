"""A network as an ONNX graph for ONNX Runtime: a peer of benchmarks/engine.py.

Layer after layer, which is the strongest form in PyTorch at batch 1: one product or convolution over all steps, and an
ONNX `Scan` over time for the neurons. Weights are floats of -1 and +1, times gains. A static first layer is computed
once; delays are a `GatherND` of the whole sequence. Recurrent and adaptive neurons are not built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from bitspike.deploy.model import LayerModel, NetworkModel
from bitspike.image_steps import PLACES
from engine_peers import real_weights

OPSET, FORMAT = 17, 8  # versions of the operators and of the file, which every ONNX Runtime of the last years reads


class Graph:
    """Nodes and constants of a graph; every node has one output, whose name is returned."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def shape(self, *sizes: int) -> str:
        return self.constant(sizes, np.int64)


def _at_places(graph: Graph, x: str, model: NetworkModel) -> str:
    """Return the image at all places, `[B * G, C, H, W]`: bitspike.nn.glances.at_places."""
    if model.glances == 1:
        return x
    channels, rows, columns = model.input_shape
    padded = graph.add("Pad", x, graph.shape(0, 0, 1, 1, 0, 0, 1, 1))
    views = []
    for down, right in PLACES[model.glances]:
        starts, ends = (1 - down, 1 - right), (1 - down + rows, 1 - right + columns)
        view = graph.add("Slice", padded, graph.shape(*starts), graph.shape(*ends), graph.shape(2, 3))
        views.append(graph.add("Unsqueeze", view, graph.shape(1)))
    return graph.add("Reshape", graph.add("Concat", *views, axis=1), graph.shape(-1, channels, rows, columns))


def _current(graph: Graph, layer: LayerModel, x: str) -> str:
    """Return the current of many samples at once, as TorchLayer.current of engine_peers.py."""
    weight = real_weights(layer)
    if layer.kind == "dense":
        flat = graph.add("Flatten", x, axis=1)
        c = graph.add("MatMul", flat, graph.constant(weight.T))
    else:
        c = graph.add("Conv", x, graph.constant(weight), strides=[layer.stride] * 2, pads=[layer.padding] * 4)
    for pool in layer.pools:
        kind = "AveragePool" if pool.kind == "average" else "MaxPool"
        c = graph.add(kind, c, kernel_shape=[pool.size] * 2, strides=[pool.stride] * 2)
    shape = (-1, 1, 1) if layer.kind == "conv" else (-1,)
    if layer.bias is not None:
        c = graph.add("Add", c, graph.constant(layer.bias.reshape(shape)))
    if layer.scale is not None and layer.offset is not None:
        c = graph.add("Mul", c, graph.constant(layer.scale.reshape(shape)))
        c = graph.add("Add", c, graph.constant(layer.offset.reshape(shape)))
    return c


def _delayed(graph: Graph, layer: LayerModel, x: str, steps: int) -> str:
    """Return x[t - d] of a whole sequence `[T, B, N]`."""
    if layer.delays is None:
        return x
    longest = int(layer.delays.max())
    padded = graph.add("Pad", x, graph.shape(longest, 0, 0, 0, 0, 0))
    times = np.arange(steps)[None] + longest - layer.delays.astype(np.int64)[:, None]
    by_input = graph.add("Transpose", padded, perm=[2, 0, 1])
    found = graph.add("GatherND", by_input, graph.constant(times[..., None], np.int64), batch_dims=1)
    return graph.add("Transpose", found, perm=[1, 2, 0])


def _neurons(graph: Graph, layer: LayerModel, current: str, samples: int, steps: int, *, static: bool) -> str:
    """Return a layer's spikes, or the membrane of one that never fires, `[T, samples, *output]`, by a Scan."""
    sizes = layer.output if layer.kind == "conv" else layer.output[:1]
    body, number = Graph(), len(graph.nodes)
    u, z, c = (f"{name}{number}" for name in "uzc")
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in (u, z, c)]

    def each(values: np.ndarray) -> str:
        body.constants.append(numpy_helper.from_array(values.reshape(sizes if values.size > 1 else ()).copy(), ""))
        body.constants[-1].name = f"b{number}_{len(body.constants)}"
        return str(body.constants[-1].name)

    def add(operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"s{number}_{len(body.nodes)}"
        body.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    now = add("Add", add("Mul", each(layer.beta), u), current if static else c)
    if layer.theta is None:
        fired, kept = add("Identity", z), add("Identity", now)
    else:
        theta = each(layer.theta)
        now = add("Sub", now, add("Mul", theta, z))
        fired = add("Cast", add("GreaterOrEqual", now, theta), to=TensorProto.FLOAT)
        kept = add("Identity", fired)
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in (now, fired, kept)]
    loop = helper.make_graph(body.nodes, f"neurons{number}", value, outputs, body.constants)
    rest = graph.constant(np.zeros((samples, *sizes)))
    sequence = graph.constant(np.zeros((steps, 1))) if static else current
    spikes = f"spikes{number}"
    names = [f"u_end{number}", f"z_end{number}", spikes]
    graph.nodes.append(helper.make_node("Scan", [rest, rest, sequence], names, num_scan_inputs=1, body=loop))
    return spikes


def build_onnx(model: NetworkModel, shape: tuple[int, ...], *, spikes: bool) -> onnx.ModelProto:
    """Return the network for inputs of one shape: it gives the scores and, if asked, every layer's spikes."""
    if any(layer.recurrent is not None or layer.adaptation is not None for layer in model.layers):
        raise ValueError("build_onnx: recurrent and adaptive neurons are not built")
    graph, static = Graph(), len(shape) == len(model.input_shape) + 1
    batch = shape[0 if static else 1]
    steps = model.steps // model.glances if static else shape[0]
    samples = batch * model.glances if static else batch
    z, layers = (_at_places(graph, "x", model) if static else "x"), []
    before: tuple[int, ...] = model.input_shape
    for i, layer in enumerate(model.layers):
        if static and i == 0:
            current = _current(graph, layer, z)
        else:
            z = _delayed(graph, layer, z, steps)
            c = _current(graph, layer, graph.add("Reshape", z, graph.shape(steps * samples, *before)))
            sizes = layer.output if layer.kind == "conv" else layer.output[:1]
            current = graph.add("Reshape", c, graph.shape(steps, samples, *sizes))
        z = _neurons(graph, layer, current, samples, steps, static=static and i == 0)
        before = layer.output if layer.kind == "conv" else layer.output[:1]
        layers.append(z)
    total = graph.add("Reshape", z, graph.shape(steps, batch, samples // batch, model.classes))
    total = graph.add("ReduceSum", total, graph.shape(0, 2), keepdims=0)
    scores = graph.add("Div", total, graph.constant(steps * samples // batch))
    if model.readout == "membrane":
        scores = graph.add("Mul", scores, graph.constant(np.float32(1) - model.layers[-1].beta.reshape(-1)))
    graph.add("Identity", scores)
    names = [graph.nodes[-1].output[0], *(layers if spikes else [])]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))]
    made = helper.make_graph(graph.nodes, "network", given, outputs, graph.constants)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=FORMAT)


def session(model: onnx.ModelProto, threads: int) -> Any:
    """Return the network in ONNX Runtime on the CPU, with all its optimizations."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def onnx_layers(model: NetworkModel, x: np.ndarray, threads: int) -> Callable[[], np.ndarray]:
    """Return a function that gives the scores of this batch."""
    runs = session(build_onnx(model, x.shape, spikes=False), threads)
    return lambda: runs.run(None, {"x": x})[0]


def onnx_spikes(model: NetworkModel, x: np.ndarray) -> list[np.ndarray]:
    """Return the scores, and each layer's spikes `[T, samples, ...]`; of a layer that never fires its membrane."""
    return list(session(build_onnx(model, x.shape, spikes=True), 1).run(None, {"x": x}))
