"""IDX: what is written is read, and whatever is wrong with a file is said in one line that names it."""

import gzip
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.data import idx
from bitspike.data.idx import read_idx, read_images
from helpers.files import idx_bytes, write_idx, write_mnist


@given(st.lists(st.integers(0, 5), max_size=4), st.booleans(), st.integers(0, 9))
def test_what_is_written_is_read(tmp_path_factory, shape, packed, seed):
    array = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    path = write_idx(tmp_path_factory.mktemp("idx") / "file", array, packed=packed)
    read = read_idx(path)
    assert read.dtype == torch.uint8
    assert np.array_equal(read.numpy(), array)


def test_the_name_does_not_matter(tmp_path):
    array = np.arange(6).reshape(2, 3)
    plain = write_idx(tmp_path / "plain.gz", array, packed=False)
    packed = write_idx(tmp_path / "packed", array, packed=True)
    assert torch.equal(read_idx(plain), read_idx(packed))


WHOLE = idx_bytes(np.arange(24).reshape(2, 3, 4))
HUGE = struct.pack(">BBBB3I", 0, 0, 8, 3, 2**31, 2**31, 4)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "two zero bytes"),
        (b"\0\1" + WHOLE[2:], "two zero bytes"),
        (b"PK\3\4" + WHOLE, "two zero bytes"),
        (b"\0\0\x0d\1" + WHOLE[4:], "type is 0x0d"),
        (WHOLE[:9], "ends within its header of 3 dimensions"),
        (WHOLE[:-1], "2 x 3 x 4 = 24 bytes, "),
        (WHOLE + b"x", "2 x 3 x 4 = 24 bytes, but more follow"),
        (HUGE + b"x" * 50, "more than the 2147483648 that are read"),
        (struct.pack(">BBBB1I", 0, 0, 8, 1, 2**30) + bytes(9), "more than the file can hold"),
    ],
)
def test_damage_is_named(tmp_path, data, packed, says):
    path = tmp_path / "damaged-images"
    path.write_bytes(gzip.compress(data) if packed else data)
    with pytest.raises(ValueError, match=says) as caught:
        read_idx(path)
    assert str(caught.value).startswith(str(path))


def test_a_little_too_short_says_how_much_follows(tmp_path):
    path = tmp_path / "short.gz"
    path.write_bytes(gzip.compress(WHOLE[:-3]))
    with pytest.raises(ValueError, match="24 bytes, but only 21 follow"):
        read_idx(path)


@pytest.mark.parametrize("where", ["checksum", "cut", "body"])
def test_damaged_gzip_is_named(tmp_path, where):
    data = bytearray(gzip.compress(WHOLE, mtime=0))
    if where == "checksum":
        data[-8] ^= 1
    elif where == "cut":
        del data[-12:]
    else:
        data[10] ^= 0xFF
    path = tmp_path / "damaged.gz"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"damaged\.gz: the gzip data is damaged or cut short"):
        read_idx(path)


def test_no_more_is_unpacked_than_the_header_promises(tmp_path):
    # 64 MiB of zeros behind one byte: were they read, more than the buffers would be held.
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(idx_bytes(np.zeros(1)) + bytes(2**26)))
    taken = []
    whole = gzip.GzipFile.read

    def counted(self, size=-1):
        block = whole(self, size)
        taken.append(len(block))
        return block

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gzip.GzipFile, "read", counted)
        with pytest.raises(ValueError, match="but more follow"):
            read_idx(path)
    assert 0 < sum(taken) <= 4 + 4 + 1 + 1


def test_a_missing_file_is_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_idx(tmp_path / "none")


# ---- Images


def test_images_have_one_channel_and_labels_are_numbers(tmp_path):
    folder = write_mnist(tmp_path, train=12)
    images = read_images(folder / "train-images-idx3-ubyte.gz", folder / "train-labels-idx1-ubyte.gz")
    assert images.values.shape == (12, 1, 28, 28)
    assert images.values.dtype == torch.uint8
    assert images.labels.dtype == torch.int64
    assert images.labels.tolist() == [*range(10), 0, 1]
    assert torch.equal(images.values[:, 0], read_idx(folder / "train-images-idx3-ubyte.gz"))


@pytest.mark.parametrize(
    ("images", "labels", "says"),
    [
        (np.zeros((3, 2, 2)), np.zeros(4), "holds 3 images, but labels 4 labels"),
        (np.zeros((3, 4)), np.zeros(3), r"images must be an array \[N, H, W\], but it has the shape \[3, 4\]"),
        (np.zeros((3, 2, 2)), np.zeros((3, 1)), r"labels must be an array \[N\]"),
        (np.zeros((3, 2, 2)), [0, 10, 1], r"labels must be in 0\.\.9, but one is 10"),
    ],
)
def test_images_and_labels_must_fit(tmp_path, images, labels, says):
    pair = write_idx(tmp_path / "images", images), write_idx(tmp_path / "labels", labels)
    with pytest.raises(ValueError, match=says):
        read_images(*pair)


def test_more_classes_can_be_asked_for(tmp_path):
    pair = write_idx(tmp_path / "images", np.zeros((2, 2, 2))), write_idx(tmp_path / "labels", [25, 0])
    assert read_images(*pair, classes=26).labels.tolist() == [25, 0]


def test_the_limit_is_two_gibibytes():
    assert idx.LIMIT == 2 * 2**30


def test_images_that_pack_well_are_read(tmp_path):
    path = write_idx(tmp_path / "black.gz", np.zeros((100, 100, 100)))
    assert path.stat().st_size < 2000
    assert read_idx(path).shape == (100, 100, 100)
