"""Running statistics computed anew are the plain averages that they claim to be, and training does not notice."""

import json

import pytest
import torch

from bitspike import SpikingNetwork, build
from bitspike.data import Images
from bitspike.data.samples import frames_from_dense
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.runs import train_run
from bitspike.experiments.saved import evaluate_run, load_run
from bitspike.experiments.schema import read_experiment, with_values
from bitspike.nn.fast import triton as fused
from bitspike.nn.fast.refusal import refused_network
from bitspike.nn.norm import SharedBatchNorm1d
from bitspike.train.tricks import recalibrate as module
from bitspike.train.tricks.recalibrate import calibration_rows, recalibrate
from helpers import runs

SIZE = 23


def pictures():
    drawn = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (SIZE, 1, 9, 9), dtype=torch.uint8, generator=drawn)
    return Images(images, torch.arange(SIZE) % 3)


def events():
    drawn = torch.Generator().manual_seed(1)
    return frames_from_dense(torch.randint(0, 3, (SIZE, 6, 1, 9, 9), generator=drawn), torch.arange(SIZE) % 3)


def network(norm, backend="auto"):
    """Two batch norms: of a current that is constant in time (if images are shown), and of one that is not."""
    net = build(
        "3Conv3-4Conv3-AP2-16Dense3", (1, 9, 9), norm=norm, theta=0.4, beta=0.9, dropout=0.5, steps=7,
        backend=backend, generator=torch.Generator().manual_seed(2),
    )  # fmt: skip
    with torch.no_grad():
        for buffer in net.buffers():
            if buffer.shape:
                buffer.fill_(5.0)  # whatever was there counts for nothing
    return net


def norms(net):
    return [layer.norm for layer in net.layers[:2]]


def statistics(net):
    return [value.clone() for norm in norms(net) for value in (norm.running_mean, norm.running_var)]


def by_definition(net, samples, parts):
    """The average over minibatches and steps of mean and unbiased variance, in float64, from what batch norm is fed."""
    fed = [[], []]
    for norm, seen in zip(norms(net), fed, strict=True):
        norm.register_forward_pre_hook(lambda _, given, seen=seen: seen.append(given[0].double()))
    net.eval()
    for norm in norms(net):
        norm.train()
    for part in parts:
        with torch.no_grad():
            net(samples.batch(part)[0])
    found = []
    for norm, seen in zip(norms(net), fed, strict=True):
        shared = type(norm).__name__ == "SharedBatchNorm2d"
        steps = [x for whole in seen for x in ([whole.flatten(0, -4)] if shared or whole.dim() == 4 else whole)]
        found += [torch.stack([x.mean((0, 2, 3)) for x in steps]).mean(0)]
        found += [torch.stack([x.transpose(0, 1).flatten(1).var(1) for x in steps]).mean(0)]
    return found


@pytest.mark.parametrize(("backend", "count", "batch"), [("reference", 20, 8), ("auto", 100, 6), ("auto", 5, 256)])
@pytest.mark.parametrize("norm", ["step", "shared"])
@pytest.mark.parametrize("data", [pictures, events])
def test_statistics_are_plain_averages(data, norm, backend, count, batch):
    samples, net = data(), network(norm, backend)
    recalibrate(net, samples, count, batch=batch, seed=3)
    count = min(count, SIZE)
    parts = calibration_rows(SIZE, count, 3).tensor_split(-(-count // batch))
    for got, wanted in zip(statistics(net), by_definition(network(norm, backend), samples, parts), strict=True):
        torch.testing.assert_close(got.double(), wanted, rtol=3e-6, atol=3e-6)


def test_long_sequences_weigh_their_steps_alike():
    drawn = torch.Generator().manual_seed(1)
    early = torch.zeros(SIZE, 100, 1, 9, 9, dtype=torch.int64)
    early[:, :5] = torch.randint(0, 30, (SIZE, 5, 1, 9, 9), generator=drawn)  # a usual average has forgotten these
    samples, net = frames_from_dense(early, torch.zeros(SIZE)), network("step")
    recalibrate(net, samples, 6, batch=3, seed=3)
    parts = calibration_rows(SIZE, 6, 3).tensor_split(2)
    got, wanted = statistics(net), by_definition(network("step"), samples, parts)
    assert wanted[1].min() > 0.1
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=3e-5, atol=1e-6)


@pytest.mark.parametrize("norm", ["step", "shared"])
@pytest.mark.parametrize("data", [pictures, events])
def test_fused_kernels_come_to_the_same(monkeypatch, data, norm):
    pytest.importorskip("triton")
    from helpers.kernels import DEVICE

    plain, net = network(norm, "reference").to(DEVICE), network(norm).to(DEVICE)
    samples = data().to(DEVICE)
    recalibrate(plain, samples, 12, batch=6, seed=3)
    calls = []

    def forward(self, x):
        calls.append(refused_network(self._blocks(), x))
        return fused.run(self._blocks(), x, self._steps(x, None), recompute=False)[0]

    monkeypatch.setattr(SpikingNetwork, "forward", forward)
    recalibrate(net, samples, 12, batch=6, seed=3)
    assert calls == [None, None]
    for got, wanted in zip(statistics(net), statistics(plain), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def dense_network(backend="auto"):
    return build(
        "9-8-3", delays=4, dense_norm=True, readout="membrane", spike_dropout=0.5, dropout=0.3, backend=backend,
        generator=torch.Generator().manual_seed(2),
    ).train()  # fmt: skip


def rows_of_channels():
    values = torch.randint(0, 3, (SIZE, 12, 9), generator=torch.Generator().manual_seed(1))
    return frames_from_dense(values, torch.arange(SIZE) % 3)


def test_fused_kernels_measure_dense_norms_alike(monkeypatch):
    pytest.importorskip("triton")
    from helpers.kernels import DEVICE

    plain, net = dense_network("reference").to(DEVICE), dense_network().to(DEVICE)
    samples = rows_of_channels().to(DEVICE)
    recalibrate(plain, samples, 12, batch=6, seed=3)
    calls = []

    def forward(self, x):
        calls.append(refused_network(self._blocks(), x.to(torch.uint8)))
        return fused.run(self._blocks(), x.to(torch.uint8), None, recompute=False)[0]

    monkeypatch.setattr(SpikingNetwork, "forward", forward)
    recalibrate(net, samples, 12, batch=6, seed=3)
    assert calls == [None, None]
    for got, wanted in zip(net.layers, plain.layers, strict=True):
        for kind in ("running_mean", "running_var"):
            torch.testing.assert_close(getattr(got.norm, kind), getattr(wanted.norm, kind), rtol=1e-4, atol=1e-5)


def test_dense_norms_are_measured_with_whole_delays_and_without_dropout():
    net, samples = dense_network(), rows_of_channels()
    recalibrate(net, samples, 12, batch=6, seed=3)
    fed = [[] for _ in net.layers]
    net.eval()
    for layer, seen in zip(net.layers, fed, strict=True):
        assert isinstance(layer.norm, SharedBatchNorm1d)
        layer.norm.register_forward_pre_hook(lambda _, given, seen=seen: seen.append(given[0].double().flatten(0, 1)))
    measured = [(layer.norm.running_mean.double(), layer.norm.running_var.double()) for layer in net.layers]
    for layer in net.layers:
        layer.norm.train()
    with torch.no_grad():
        for part in calibration_rows(SIZE, 12, 3).tensor_split(2):
            net(samples.batch(part)[0])
    for (mean, variance), seen in zip(measured, fed, strict=True):
        torch.testing.assert_close(mean, torch.stack([x.mean(0) for x in seen]).mean(0), rtol=3e-6, atol=3e-6)
        torch.testing.assert_close(variance, torch.stack([x.var(0) for x in seen]).mean(0), rtol=3e-6, atol=3e-6)


def test_what_is_the_same_afterwards():
    net = network("step").train()
    net.layers[0].norm.momentum = 0.25
    before = {name: value.clone() for name, value in net.state_dict().items()}
    drawn = torch.random.get_rng_state()
    recalibrate(net, pictures(), 10, batch=4, seed=0)
    changed = {name for name, value in net.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {f"layers.{i}.norm.running_{kind}" for i in (0, 1) for kind in ("mean", "var")}
    assert [norm.momentum for norm in norms(net)] == [0.25, 0.1]
    assert all(part.training for part in net.modules())
    assert torch.equal(torch.random.get_rng_state(), drawn)
    recalibrate(net.eval(), pictures(), 10, batch=4, seed=0)
    assert not any(part.training for part in net.modules())


def test_an_error_leaves_the_network_as_it_was(monkeypatch):
    net = network("step").train()
    norms(net)[0].eval()
    before = statistics(net)
    monkeypatch.setattr(SpikingNetwork, "forward", lambda self, x: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        recalibrate(net, pictures(), 10, batch=4, seed=0)
    assert [norm.momentum for norm in norms(net)] == [0.1, 0.1]
    assert all(torch.equal(a, b) for a, b in zip(before, statistics(net), strict=True))
    assert net.training
    assert [norm.training for norm in norms(net)] == [False, True]


def test_nothing_passes_where_there_is_nothing_to_do(monkeypatch):
    monkeypatch.setattr(module, "calibration_rows", lambda *arguments: 1 / 0)
    net = network("step")
    before = statistics(net)
    recalibrate(net, pictures(), 0, batch=4, seed=0)
    assert all(torch.equal(a, b) for a, b in zip(before, statistics(net), strict=True))
    recalibrate(build("81-3", (1, 9, 9)), pictures(), 10, batch=4, seed=0)


def test_rows_are_the_seeds_and_a_longer_list_begins_alike():
    assert sorted(calibration_rows(30, 100, 1).tolist()) == list(range(30))
    assert calibration_rows(30, 7, 1).tolist() == calibration_rows(30, 20, 1)[:7].tolist()
    assert calibration_rows(30, 7, 1).tolist() != calibration_rows(30, 7, 2).tolist()


def test_an_average_without_statistics_is_refused():
    net = network("step")
    net.layers[1].norm.running_mean = None
    with pytest.raises(ValueError, match="recalibrate: a batch norm keeps no running statistics"):
        recalibrate(net, pictures(), 10, batch=4, seed=0)


# ---- In a run


def train(folder, name, *settings):
    spec = read_experiment(runs.write_experiment(folder))
    spec = with_values(spec, ["train.epochs=3", "train.tensorboard=false", *settings])
    return train_run(spec, folder / name, RunOptions())


@pytest.mark.parametrize("norm", ["step", "shared"])
def test_no_number_of_training_changes(tmp_path, norm):
    train(tmp_path, "without", f"net.norm={norm}")
    train(tmp_path, "with", f"net.norm={norm}", "train.recalibrate=20", "train.evaluate_batch=7")
    one, two = (runs.rows(tmp_path / name) for name in ("without", "with"))
    for key in ("train_loss", "train_accuracy", "lr", "theta"):
        assert [row[key] for row in one] == [row[key] for row in two]
    assert [row["valid_loss"] for row in one] != [row["valid_loss"] for row in two]
    a, b = (runs.flat(runs.checkpoint(tmp_path / name)) for name in ("without", "with"))
    unlike = {path for path in a if isinstance(a[path], torch.Tensor) and not torch.equal(a[path], b[path])}
    assert unlike
    assert all("running_" in path for path in unlike)


def test_the_best_weights_carry_the_statistics_they_were_judged_with(tmp_path):
    settings = ("train.recalibrate=20", "train.evaluate_batch=7", "train.evaluate_theta=final")
    summary = train(tmp_path, "run", *settings)
    judged = evaluate_run(tmp_path / "run", "valid", RunOptions())
    row = runs.rows(tmp_path / "run")[summary["best_epoch"] - 1]
    assert (judged.result.loss, judged.result.accuracy) == (row["valid_loss"], row["valid_accuracy"])
    net = load_run(tmp_path / "run")
    assert [layer.lif.theta.item() for layer in net.layers] == pytest.approx([1.5, 0.5, 1.0, 0.4])  # the final ones
    before = [value.clone() for name, value in net.state_dict().items() if "running" in name]
    samples = runs.training_samples(tmp_path / "run")
    recalibrate(net, samples, 20, seed=0)
    after = [value for name, value in net.state_dict().items() if "running" in name]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["accuracy"] is not None
