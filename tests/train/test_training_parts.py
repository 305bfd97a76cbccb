"""The parts of the training loop, each against its definition: learning rate, clips, seeds, tasks, health, shards."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bitspike import build, count_loss, cross_entropy_loss
from bitspike.data.coding import target_trace
from bitspike.data.samples import frames_from_dense
from bitspike.nn.dropout import Dropout
from bitspike.nn.norm import SharedBatchNorm2d, StepBatchNorm2d
from bitspike.nn.sharding import Shard, set_shard
from bitspike.ops import LIFOutput, LIFState
from bitspike.train.config import TrainConfig
from bitspike.train.evaluation import evaluate
from bitspike.train.health import FirstBad, SilentLayers, dead_message
from bitspike.train.learning_rates import make_rate
from bitspike.train.optim import gradient_norms, make_optimizer
from bitspike.train.seeds import mixed, order
from bitspike.train.tasks import CountTask, CrossEntropyTask, TraceTask, judge_output
from bitspike.train.tricks.clips import clip_gradients, clip_weights, latent_weights


@given(st.integers(1, 40), st.floats(1e-5, 1.0))
def test_the_learning_rate_is_torchs_cosine_past_its_half_period(half_period, lr):
    config = TrainConfig(lr=lr, half_period=half_period)
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=half_period, eta_min=0)
    for step in range(3 * half_period):
        assert make_rate(config, 1)(step) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-6, abs=1e-9 * lr)
        optimizer.step()
        scheduler.step()


def test_the_learning_rate_rises_again():
    config = TrainConfig(lr=2.0, half_period=10)
    assert [round(make_rate(config, 1)(step), 9) for step in (0, 5, 10, 15, 20)] == [2.0, 1.0, 0.0, 1.0, 2.0]


def test_a_constant_learning_rate_stays():
    assert make_rate(TrainConfig(lr=0.3, schedule="constant"), 1)(1000) == 0.3


def test_a_decay_by_hand():
    config = TrainConfig(lr=2.0, schedule="decay", warmup=0.2)  # of 50 iterations: 10 up, 40 down
    rates = {0: 0.0, 1: 0.2, 5: 1.0, 9: 1.8, 10: 2.0, 20: 1 + math.cos(math.pi / 4), 30: 1.0, 50: 0.0, 60: 0.0}
    assert {step: make_rate(config, 50)(step) for step in rates} == pytest.approx(rates, abs=1e-12)
    assert 0 < make_rate(config, 50)(49) < 0.01  # the last iteration still learns


@given(st.floats(1e-5, 1.0), st.floats(0, 0.99), st.integers(1, 300))
def test_a_decay_rises_falls_and_is_never_out_of_bounds(lr, warmup, total):
    config = TrainConfig(lr=lr, schedule="decay", warmup=warmup)
    rates = [make_rate(config, total)(step) for step in range(total + 1)]
    top = rates.index(max(rates))
    assert all(0 <= rate <= lr for rate in rates)
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert abs(top - warmup * total) <= 1
    assert rates[-1] == pytest.approx(0, abs=1e-12)


@given(st.floats(0.01, 100), st.integers(0, 5))
def test_gradients_are_clipped_as_torch_clips_them(limit, seed):
    generator = torch.Generator().manual_seed(seed)
    ours = [nn.Parameter(torch.zeros(3, 4)), nn.Parameter(torch.zeros(5)), nn.Parameter(torch.zeros(2))]
    theirs = [nn.Parameter(p.detach().clone()) for p in ours]
    for a, b in zip(ours[:2], theirs[:2], strict=True):
        a.grad = torch.randn(a.shape, generator=generator)
        b.grad = a.grad.clone()
    norms = gradient_norms(ours)
    assert norms.tolist() == pytest.approx([ours[0].grad.norm().item(), ours[1].grad.norm().item(), 0.0])
    clip_gradients(ours, norms, limit)
    nn.utils.clip_grad_norm_(theirs, limit)
    for a, b in zip(ours[:2], theirs[:2], strict=True):
        torch.testing.assert_close(a.grad, b.grad)
    assert ours[2].grad is None


@pytest.mark.parametrize("far", [3.0, -3.0])
def test_every_parameter_is_clipped(far):
    net = build("2Conv3-18Dense3", (1, 5, 5), norm="step")
    for p in net.parameters():
        nn.init.constant_(p, far)
    clip_weights(list(net.parameters()), 1.0)
    assert {p.detach().unique().item() for p in net.parameters()} == {far / 3}


def test_only_latent_weights_of_binary_synapses_are_latent():
    net = build("2Conv3-18Dense4-4Dense3", (1, 5, 5), norm="step", recurrent=True, learn_beta=True)
    names = {id(p): name for name, p in net.named_parameters()}
    assert {names[id(weight)] for weight in latent_weights(net)} == {
        "layers.0.synapse.weight", "layers.1.synapse.weight", "layers.1.lif.weight", "layers.2.synapse.weight"
    }  # fmt: skip
    assert latent_weights(build("2Conv3-18Dense4-4Dense3", (1, 5, 5), binary=False, recurrent=True)) == []


def test_the_optimizer_is_the_one_named():
    net = build("4-3")
    adam = make_optimizer(net, TrainConfig(lr=0.1, betas=(0.8, 0.9), eps=1e-5, schedule="constant"))
    assert isinstance(adam, torch.optim.Adam)
    assert (adam.defaults["betas"], adam.defaults["eps"]) == ((0.8, 0.9), 1e-5)
    sgd = make_optimizer(net, TrainConfig(lr=0.1, optimizer="sgd", momentum=0.7, schedule="constant"))
    assert isinstance(sgd, torch.optim.SGD)
    assert sgd.defaults["momentum"] == 0.7


def test_adamw_decays_weights_and_nothing_else():
    net = build("4Conv3-AP2-36Dense10Dense3", (1, 8, 8), norm="step", learn_beta=True, recurrent=True)
    config = TrainConfig(lr=0.5, optimizer="adamw", weight_decay=0.25, betas=(0.8, 0.9), schedule="constant")
    adamw = make_optimizer(net, config)
    assert isinstance(adamw, torch.optim.AdamW)
    assert adamw.defaults["betas"] == (0.8, 0.9)
    assert sum(len(group["params"]) for group in adamw.param_groups) == len(list(net.parameters()))
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    for p in net.parameters():
        p.grad = torch.zeros_like(p)
    adamw.step()
    changed = {name for name, p in net.named_parameters() if not torch.equal(p, before[name])}
    assert changed == {f"layers.{i}.synapse.weight" for i in range(3)} | {"layers.1.lif.weight"}
    for name in changed:
        torch.testing.assert_close(net.get_parameter(name), before[name] * (1 - 0.5 * 0.25))


def test_adamw_is_torchs_on_weights():
    torch.manual_seed(0)
    ours, theirs = build("4-3"), build("4-3")
    theirs.load_state_dict(ours.state_dict())
    config = TrainConfig(lr=0.1, optimizer="adamw", schedule="constant")
    optimizers = make_optimizer(ours, config), torch.optim.AdamW(theirs.parameters(), lr=0.1)  # 0.01, its default
    for k in range(5):
        for net, optimizer in zip((ours, theirs), optimizers, strict=True):
            for p in net.parameters():
                p.grad = (p.detach() * k).sin()
            optimizer.step()
    assert torch.equal(ours.layers[0].synapse.weight, theirs.layers[0].synapse.weight)


def test_seeds_differ_by_purpose_and_iteration():
    drawn = {mixed(seed, purpose, k) for seed in range(5) for purpose in ("order", "dropout") for k in range(50)}
    assert len(drawn) == 500
    assert all(0 <= seed < 2**63 for seed in drawn)
    assert mixed(1, "order", 2) == mixed(1, "order", 2)


@given(st.integers(1, 20), st.integers(1, 3), st.integers(0, 5), st.integers(0, 5))
def test_an_epoch_passes_over_all_samples(samples, repeat, seed, epoch):
    rows = order(samples, repeat, seed, epoch)
    assert all(sorted(part.tolist()) == list(range(samples)) for part in rows.split(samples))
    assert torch.equal(rows, order(samples, repeat, seed, epoch))


def test_epochs_are_shuffled_differently():
    assert not torch.equal(order(100, 1, 0, 0), order(100, 1, 0, 1))
    assert not torch.equal(order(100, 1, 0, 0), order(100, 1, 1, 0))
    assert not torch.equal(*order(100, 2, 0, 0).view(2, 100))  # each pass has an order of its own


def output(spikes, membrane=None):
    return LIFOutput(spikes, membrane, LIFState(spikes[-1], spikes[-1]))


def test_the_class_that_fires_most_is_the_answer():
    spikes = torch.zeros(4, 3, 2)
    spikes[:3, 0, 1] = 1  # sample 0: class 1
    spikes[:1, 1, 0] = 1  # sample 1: class 0
    out = output(spikes)  # sample 2 is silent: no answer, which is not the first class
    assert CountTask().correct(out, torch.tensor([1, 1, 0])).tolist() == [True, False, False]
    labels = torch.tensor([1, 1, 0])
    assert torch.equal(CountTask(0.9, 0.1).loss(out, labels), count_loss(spikes, labels, 0.9, 0.1))


def test_cross_entropy_has_its_task():
    spikes, labels = torch.zeros(4, 3, 2), torch.tensor([1, 1, 0])
    spikes[:3, 0, 1] = spikes[:1, 1, 0] = 1
    task, out = CrossEntropyTask(7.0, 0.1), output(spikes)
    assert torch.equal(task.loss(out, labels), cross_entropy_loss(spikes, labels, 7.0, 0.1))
    loss, right = task.judge(out, labels)
    assert torch.equal(loss, task.loss(out, labels))
    assert right.tolist() == task.correct(out, labels).tolist() == [True, False, False]


def test_cross_entropy_of_scores_by_hand():
    scores, labels = torch.tensor([[0.5, -0.25], [0.1, 0.2]]), torch.tensor([0, 0])
    loss, right = CrossEntropyTask(4.0, 0.2).judge_scores(scores, labels)
    chance = (4.0 * scores).softmax(1)
    wanted = -(0.9 * chance[:, 0].log() + 0.1 * chance[:, 1].log()).mean()
    torch.testing.assert_close(loss, wanted)
    assert right.tolist() == [True, False]


def test_a_negative_score_can_be_the_answer():
    right = CrossEntropyTask().judge_scores(torch.tensor([[-3.0, -1.0]]), torch.tensor([1]))[1]
    assert right.item()


def test_an_output_is_judged_by_what_the_network_answers_with():
    x, labels = (torch.rand(9, 4, 5) < 0.5).float(), torch.arange(4) % 3
    task = CrossEntropyTask(7.0, 0.1)
    fires, reads = build("5-7-3", theta=0.5), build("5-7-3", theta=0.5, readout="membrane")
    out = fires(x)
    assert torch.equal(judge_output(fires, task, out, labels)[0], cross_entropy_loss(out.spikes, labels, 7.0, 0.1))
    loss, right = judge_output(reads, task, reads(x), labels)
    scores = reads.scores(x)
    torch.testing.assert_close(loss, nn.functional.cross_entropy(7 * scores, labels, label_smoothing=0.1))
    assert torch.equal(right, scores.argmax(1) == labels)
    for other in (CountTask(), TraceTask(1.0)):
        with pytest.raises(ValueError, match=f"{type(other).__name__}: it judges spikes, but .* cross entropy"):
            judge_output(reads, other, reads(x), labels)


def test_a_membrane_that_is_read_is_neither_dead_nor_without_an_answer():
    net = build("5-7-3", theta=[1e6, 1.0], readout="membrane")
    samples = frames_from_dense((torch.rand(11, 6, 5) < 0.4).long(), torch.arange(11) % 3)
    result = evaluate(net, samples, CrossEntropyTask(), batch=4)
    assert (result.dead, result.spikes, result.unanswered) == ([1.0, 0.0], [0.0, 0.0], 0.0)
    right = net.scores(samples.batch(torch.arange(11))[0].float()).argmax(1) == samples.labels
    assert result.accuracy == pytest.approx(right.double().mean().item())
    silent = SilentLayers(net.neuron_names())
    assert silent.look(result.dead, 0, whole=True) == ["layers.0.lif"]
    fires = evaluate(build("5-7-3", theta=[1e6, 1e6]), samples, CrossEntropyTask(), batch=4)
    assert (fires.dead, fires.unanswered) == ([1.0, 1.0], 1.0)


def test_counts_of_many_half_precision_spikes_are_exact():
    spikes = torch.ones(3000, 1, 2, dtype=torch.bfloat16)
    spikes[-1, 0, 0] = 0  # 2999 against 3000: bf16 could not tell
    assert CountTask().correct(output(spikes), torch.tensor([1])).item()


@pytest.mark.parametrize(
    ("times", "right"), [([75], True), ([74, 90], True), ([77], False), ([10, 75], False), ([], False)]
)
def test_firing_in_time_is_within_one_step(times, right):
    spikes = torch.zeros(100, 1, 1)
    spikes[times] = 1
    assert TraceTask(1.0).correct(output(spikes), torch.tensor([75])).item() is right


def test_the_trace_task_is_the_squared_error_to_the_target():
    membrane = torch.randn(100, 2, 1)
    out = output(torch.zeros(100, 2, 1), membrane)
    errors = (target_trace(50.0)[:, None] - membrane[:, :, 0]) ** 2
    labels = torch.tensor([75, 75])
    assert TraceTask(50.0).loss(out, labels).item() == pytest.approx(errors.mean().item(), rel=1e-6)
    assert TraceTask(50.0, "sum").loss(out, labels).item() == pytest.approx(errors.sum(0).mean().item(), rel=1e-6)
    with pytest.raises(ValueError, match="membrane"):
        TraceTask(50.0).loss(output(torch.zeros(100, 2, 1)), labels)


@given(st.lists(st.integers(2, 99), min_size=1, max_size=5), st.floats(0.5, 60))
def test_every_sample_has_the_trace_of_its_own_time(times, theta):
    traces = torch.stack([target_trace(theta, time) for time in times], 1)
    out = output(torch.zeros(100, len(times), 1), traces[:, :, None])
    assert TraceTask(theta, "sum").loss(out, torch.tensor(times)).item() == 0.0
    off = TraceTask(theta).loss(out, torch.tensor(times) - 1)
    assert off.item() > 0.0


def test_an_evaluation_counts_what_a_loop_over_samples_counts():
    net = build("5-7-3", theta=1.5, beta=0.5, norm=None)
    values = (torch.rand(11, 6, 5) < 0.4).long()
    samples = frames_from_dense(values, torch.arange(11) % 3)
    task = CountTask()
    for batch in (1, 4, 11, 100):
        result = evaluate(net, samples, task, batch=batch)
        with torch.no_grad():
            outs = [net.run(values[i : i + 1].transpose(0, 1).float()) for i in range(11)]
        right = [bool(task.correct(o[-1], samples.labels[i : i + 1])) for i, o in enumerate(outs)]
        losses = [task.loss(o[-1], samples.labels[i : i + 1]).item() for i, o in enumerate(outs)]
        assert result.accuracy == sum(right) / 11
        assert result.loss == pytest.approx(sum(losses) / 11, rel=1e-6)
        for layer in range(2):
            spikes = torch.cat([o[layer].spikes for o in outs], 1)
            assert result.spikes[layer] == pytest.approx(spikes.sum().item() / 11)
            assert result.dead[layer] == pytest.approx((spikes.amax((0, 1)) == 0).float().mean().item(), abs=1e-7)
        assert sum(count for _, count in result.correct_by_label.values()) == 11
        assert result.correct_by_label[0][0] == sum(r for i, r in enumerate(right) if i % 3 == 0)
    assert net.training


def test_the_first_gradient_that_is_not_finite_is_named():
    watch = FirstBad(["a", "b", "c"], torch.device("cpu"))
    watch.look(torch.tensor([1.0, 2.0, 3.0]), torch.tensor(0))
    assert watch.found() is None
    watch.look(torch.tensor([1.0, math.nan, math.inf]), torch.tensor(4))
    watch.look(torch.tensor([math.nan, math.nan, 1.0]), torch.tensor(5))
    watch.look(torch.tensor([1.0, 1.0, math.nan]), torch.tensor(6))
    assert watch.first.tolist() == [5, 4, 4]
    assert watch.found() == ("c", 4)  # the layer nearest to the loss


def test_a_layer_silent_for_long_is_reported_once():
    layers = SilentLayers(["a", "b"])
    assert layers.look([1.0, 0.5], 20, whole=False) == []
    assert layers.look([1.0, 1.0], 40, whole=False) == []
    assert layers.look([1.0, 0.9], 60, whole=False) == ["a"]
    assert layers.since["a"] == 20
    assert layers.look([1.0, 1.0], 80, whole=True) == ["b"]
    again = SilentLayers(["a", "b"])
    again.load(layers.state())
    assert again.found() == ["a", "b"]
    assert again.look([0.1, 1.0], 100, whole=False) == []
    assert again.found() == ["b"]
    assert again.look([1.0, 1.0], 120, whole=True) == []  # reported before


def test_what_to_try_depends_on_the_threshold():
    assert "lower stop" in dead_message("layers.1.lif", 7, 12.0, 50.0, 5.0)
    assert "anneal up to it" in dead_message("layers.1.lif", 7, 50.0, 50.0, 50.0)
    assert "from iteration 7 on" in dead_message("layers.1.lif", 7, 50.0, 50.0, 50.0)


def whole(batch):
    return Shard(0, batch, batch, lambda x: x)


@pytest.mark.parametrize("kind", [StepBatchNorm2d, SharedBatchNorm2d])
@pytest.mark.parametrize("static", [True, False])
def test_batch_norm_across_processes_is_batch_norm(kind, static):
    x = torch.randn(4, 3, 2, 5, 5, dtype=torch.float64)
    x = x[0] if static else x
    plain, across = (kind(2).double() for _ in range(2))
    nn.init.normal_(plain.weight)
    across.load_state_dict(plain.state_dict())
    set_shard(across, whole(3))
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    outs = [norm(i, 4 if static else 1) for norm, i in zip((plain, across), inputs, strict=True)]
    torch.testing.assert_close(*outs)
    weights = torch.randn_like(outs[0])
    for out in outs:
        (out * weights).sum().backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
    torch.testing.assert_close(plain.weight.grad, across.weight.grad)
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(value, across.state_dict()[name])
    set_shard(across, None)
    assert across.shard is None


def test_processes_take_their_rows_of_one_mask():
    x = torch.ones(6, 5, 40)
    drop = Dropout(0.25)
    parts = []
    for start, stop in ((0, 2), (2, 5)):
        torch.manual_seed(3)
        set_shard(drop, Shard(start, stop, 5, lambda x: x))
        parts.append(drop(x[:, start:stop]))
    set_shard(drop, None)
    torch.manual_seed(3)
    assert torch.equal(torch.cat(parts, 1), drop(x))
    assert parts[0].unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert torch.equal(drop.eval()(x), x)
