"""Samples in a DataLoader: one by one, in batches that are time first unasked, and in a loop that learns."""

import multiprocessing
import warnings

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Subset, random_split

import bitspike
from bitspike.data import Images, time_first
from bitspike.data.samples import frames_from_dense

COUNT, STEPS = 11, 5


def some_frames():
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(0, 4, (COUNT, STEPS, 2, 3), generator=generator)
    return frames_from_dense(values, torch.arange(COUNT) % 3)


def some_images(dtype=torch.uint8):
    values = torch.arange(COUNT * 6, dtype=torch.uint8).view(COUNT, 1, 2, 3)
    return Images(values if dtype == torch.uint8 else values / 255, torch.arange(COUNT) % 3)


KINDS = {"frames": some_frames, "images": some_images, "floats": lambda: some_images(torch.float32)}


@pytest.fixture(params=list(KINDS))
def samples(request):
    return KINDS[request.param]()


def same(got, wanted):
    assert [(each.dtype, each.shape) for each in got] == [(each.dtype, each.shape) for each in wanted]
    assert all(torch.equal(one, other) for one, other in zip(got, wanted, strict=True))


# ---- One by one


def test_a_sample_is_an_input_and_a_label(samples):
    x, label = samples[3]
    assert (x.dtype, type(label), label) == (torch.float32, int, 0)
    assert x.shape == ((STEPS, 2, 3) if samples.steps else (1, 2, 3))
    batch, labels = samples.batch(torch.tensor([3]))
    assert torch.equal(x, batch[:, 0] if samples.steps else batch[0])
    assert label == labels.item()
    assert 0 <= some_images()[10][0].max() <= 1


@pytest.mark.parametrize("at", [10, -1, np.int64(10), np.uint8(10), torch.tensor(10), torch.tensor(-1)])
def test_any_whole_number_finds_a_sample(samples, at):
    same(samples[at][:1], samples[10][:1])
    assert samples[at][1] == 1


@pytest.mark.parametrize("at", [COUNT, -COUNT - 1, 10**30])
def test_beyond_the_end_is_an_index_error(samples, at):
    with pytest.raises(IndexError, match=rf"samples\[i\]: i must be in -11\.\.10, but is {at}"):
        samples[at]


@pytest.mark.parametrize("at", [1.0, "1", None, [1, 2], torch.tensor([1, 2])])
def test_other_indices_say_what_to_use(samples, at):
    with pytest.raises(TypeError, match=r"must be a whole number or a slice, but is .*select\(rows\).*batch\(rows\)"):
        samples[at]


@pytest.mark.parametrize("at", [slice(2, 7), slice(None, None, -3), slice(-4, None), slice(5, 5)])
def test_a_slice_is_a_set_of_samples(samples, at):
    rows = list(range(COUNT))[at]
    chosen = samples[at]
    assert (type(chosen), len(chosen)) == (type(samples), len(rows))
    same(chosen.batch(torch.arange(len(rows))), samples.batch(torch.tensor(rows, dtype=torch.int64)))


def test_another_default_device_changes_nothing(samples):
    with torch.device("meta"):
        one, some = samples[1], samples[:2]
    assert torch.equal(one[0], samples[1][0])
    assert len(some) == 2


def test_a_loop_over_samples_ends(samples):
    assert [label for _, label in samples] == samples.labels.tolist()
    assert len(list(samples)) == len(samples) == COUNT


def test_they_are_datasets_of_pytorch(samples):
    assert isinstance(samples, torch.utils.data.Dataset)
    assert len(samples + samples) == 2 * COUNT


# ---- In batches


def batches(samples, rows, size):
    return [samples.batch(torch.tensor(rows[at : at + size])) for at in range(0, len(rows), size)]


@pytest.mark.parametrize("collate", [None, time_first])
@pytest.mark.parametrize("drop_last", [False, True])
def test_a_batch_is_the_samples_own(samples, collate, drop_last):
    loader = DataLoader(samples, batch_size=4, drop_last=drop_last, collate_fn=collate)
    wanted = batches(samples, range(COUNT), 4)[: 2 if drop_last else 3]
    for got, batch in zip(loader, wanted, strict=True):
        same(got, batch)
    assert wanted[0][0].shape == ((STEPS, 4, 2, 3) if samples.steps else (4, 1, 2, 3))


def test_shuffled_batches_hold_every_sample_once(samples):
    order = torch.randperm(COUNT, generator=torch.Generator().manual_seed(1)).tolist()
    loader = DataLoader(samples, batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(1))
    inputs, labels = zip(*loader, strict=True)
    assert sorted(torch.cat(labels).tolist()) == sorted(samples.labels.tolist())
    together = torch.cat(inputs, dim=1 if samples.steps else 0)
    assert together.sum() == samples.batch(torch.tensor(order))[0].sum()


@pytest.mark.parametrize(
    ("method", "workers", "kind"),
    [("fork", 2, "frames"), ("fork", 2, "images"), pytest.param("spawn", 1, "frames", marks=pytest.mark.slow)],
)
def test_workers_give_the_same(method, workers, kind):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} on this system")
    samples = KINDS[kind]()
    loader = DataLoader(samples, batch_size=4, num_workers=workers, multiprocessing_context=method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python's, of a fork beside threads
        for got, wanted in zip(loader, batches(samples, range(COUNT), 4), strict=True):
            same(got, wanted)


def test_parts_and_sums_of_sets_are_time_first_too(samples):
    one, other = random_split(samples, [7, 4], generator=torch.Generator().manual_seed(0))
    for part in (one, other, Subset(samples, [9, 2, 2])):
        for got, wanted in zip(DataLoader(part, batch_size=3), batches(samples, part.indices, 3), strict=True):
            same(got, wanted)
    (got,) = DataLoader(ConcatDataset([one, samples]), batch_size=18)
    same(got, samples.batch(torch.tensor([*one.indices, *range(COUNT)])))


def test_without_batches_samples_come_as_they_are(samples):
    for (x, label), (wanted, number) in zip(DataLoader(samples, batch_size=None), samples, strict=True):
        assert torch.equal(x, wanted)
        assert label == number


def test_sequences_of_ones_own_are_put_time_first():
    own = [(torch.full((STEPS, 2), float(at)), at) for at in range(4)]
    x, labels = next(iter(DataLoader(own, batch_size=4, collate_fn=time_first)))
    assert x.shape == (STEPS, 4, 2)
    assert x[0, :, 0].tolist() == labels.tolist() == [0, 1, 2, 3]
    with pytest.raises(
        ValueError, match=r"time_first: the inputs of a batch must have one shape, but have \[\(2, 3\), "
    ):
        time_first([(torch.zeros(2, 3), 0), (torch.zeros(4, 3), 0)])


# ---- In a loop that learns


@pytest.mark.parametrize("kind", ["frames", "images"])
def test_a_training_loop_over_a_loader_learns(kind):
    labels = torch.arange(40) % 2
    generator = torch.Generator().manual_seed(0)
    values = (torch.rand(40, 8, generator=generator) < 0.2).int()
    values[labels == 0, :4] = 1
    values[labels == 1, 4:] = 1
    if kind == "frames":
        samples = frames_from_dense(values[:, None].expand(-1, 10, -1), labels)
    else:
        samples = Images(values.float().view(40, 1, 2, 4), labels)
    net = bitspike.build("8Dense16Dense2", samples.shape, steps=10, generator=generator)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    right = []
    for _ in range(8):
        hits = 0
        for x, y in DataLoader(samples, batch_size=8, shuffle=True, generator=generator):
            spikes = net(x).spikes
            optimizer.zero_grad()
            bitspike.count_loss(spikes, y).backward()
            optimizer.step()
            hits += int((spikes.sum(0).argmax(1) == y).sum())
        right.append(hits / 40)
    assert max(right) > 0.9 > right[0], right
