"""MNIST and FashionMNIST: images of 28 x 28 in IDX files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bitspike.data.entry import Edition, Entry, Found, ImageSource
from bitspike.data.known_files import File, Form

if TYPE_CHECKING:
    from bitspike.data.samples import Images


def _read(found: Found) -> tuple[Images, Images]:
    from bitspike.data.idx import read_images

    files = {name.removesuffix(".gz"): path for name, path in found.files.items()}
    train = read_images(files["train-images-idx3-ubyte"], files["train-labels-idx1-ubyte"])
    return train, read_images(files["t10k-images-idx3-ubyte"], files["t10k-labels-idx1-ubyte"])


def _idx_files(mirrors: tuple[str, ...], *rows: tuple[int, str, str]) -> tuple[File, ...]:
    """Return the four IDX files from one row each: size and md5 of the .gz, sha256 of its content.

    Images are `[N, 28, 28]` bytes, labels `[N]` bytes.
    """
    names = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    lengths = (16 + 60_000 * 784, 8 + 60_000, 16 + 10_000 * 784, 8 + 10_000)
    files = []
    for name, length, (size, md5, sha256) in zip(names, lengths, rows, strict=True):
        packed = Form(f"{name}.gz", ("md5", md5), size, tuple(f"{mirror}{name}.gz" for mirror in mirrors))
        plain = (Form(alias, ("sha256", sha256), length) for alias in (name, name.replace("-idx", ".idx")))
        files.append(File((packed, *plain), (length, sha256)))
    return tuple(files)


_MNIST = _idx_files(
    ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    (9912422, "f68b3c2dcbeaaa9fbdd348bbdeb94873", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    (28881, "d53e105ee54ea40749a09fcbcd1e9432", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
    (1648877, "9fb629c4189551a2d022fa330f9573f3", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    (4542, "ec29112dd5afa0611ce80d1b7f02629c", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
)
_FASHION = _idx_files(
    (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
    (26421880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d", "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
    (29515, "25c81989df183df01b3e8a0aad5dffbe", "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
    (4422102, "bef4ecab320f06d8554ea6380940ec79", "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
    (5148, "bb300cfdad3c16e7a12a480ee83cd310", "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
)

MNIST = Entry(
    name="mnist",
    title="MNIST",
    what="60,000 + 10,000 images of handwritten digits, 1x28x28, 10 classes",
    licence="CC BY-SA 3.0",
    homepage="http://yann.lecun.com/exdb/mnist/",
    citation="LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition, 1998",
    classes=10,
    source=ImageSource(_read),
    folders=("mnist", "MNIST", "MNIST/raw", "raw", "."),
    editions=(Edition("published", _MNIST),),
    class_names=tuple("0123456789"),
)
FASHION = Entry(
    name="fashion",
    title="FashionMNIST",
    what="60,000 + 10,000 images of clothes, 1x28x28, 10 classes",
    licence="MIT",
    homepage="https://github.com/zalandoresearch/fashion-mnist",
    citation="Xiao, Rasul, Vollgraf: Fashion-MNIST, arXiv:1708.07747",
    classes=10,
    source=ImageSource(_read),
    folders=("fashion", "fashion-mnist", "FashionMNIST", "FashionMNIST/raw", "raw", "."),
    editions=(Edition("published", _FASHION),),
    class_names=(
        *("T-shirt/top", "trouser", "pullover", "dress", "coat"),
        *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
    ),
)
