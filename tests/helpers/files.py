"""Tiny files in the formats that data sets are published in, written from what the formats' pages say."""

import gzip
import io
import lzma
import struct
import tarfile
import zipfile

import numpy as np

from bitspike.data.catalog import lookup
from bitspike.data.notes import Kept, Manifest
from bitspike.files import digest

AEDAT_HEADER = (
    b"#!AER-DAT3.1\r\n#Format: RAW\r\n#Source 1: DVS128\r\n#Start-Time: 2016-01-01 00:00:00\r\n#!END-HEADER\r\n"
)


def events(t, x, y, p):
    """Columns as the writers here take them."""
    return tuple(np.asarray(column) for column in (t, x, y, p))


# ---- IDX


def idx_bytes(array):
    array = np.asarray(array, dtype=np.uint8)
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_idx(path, array, *, packed=None):
    """IDX, gzipped if the name says so (or as `packed` says)."""
    data = idx_bytes(array)
    path.write_bytes(gzip.compress(data, mtime=0) if (path.suffix == ".gz" if packed is None else packed) else data)
    return path


def write_mnist(folder, train=20, test=10, *, side=28, seed=0):
    """The four files of MNIST, random images of every class in turn."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", train), ("t10k", test)):
        images = rng.integers(0, 256, (count, side, side), dtype=np.uint8)
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", images)
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", np.arange(count) % 10)
    return folder


# ---- AEDAT 3.1


def aedat_packet(t, x, y, p, *, valid=None, kind=1, overflow=0, capacity=None, size=8):
    """One packet; `t` are the 31 bits that an event holds."""
    t, x, y, p = (np.asarray(column, dtype=np.int64) for column in (t, x, y, p))
    valid = np.ones(len(t), dtype=np.int64) if valid is None else np.asarray(valid, dtype=np.int64)
    body = np.empty((len(t), 2), dtype="<u4")
    body[:, 0] = (x << 17) | (y << 2) | (p << 1) | valid
    body[:, 1] = t
    capacity = len(t) if capacity is None else capacity
    header = struct.pack("<hhiiiiii", kind, 1, size, 4, overflow, capacity, len(t), int(valid.sum()))
    return header + body.tobytes() + b"\xff" * ((capacity - len(t)) * 8)


def aedat_bytes(t, x, y, p, *, packet=100):
    """A recording in packets of at most `packet` events."""
    t, x, y, p = events(t, x, y, p)
    packets = []
    for overflow in np.unique(t >> 31):
        rows = np.flatnonzero(t >> 31 == overflow)
        for at in range(0, len(rows), packet):
            part = rows[at : at + packet]
            columns = (t[part] & (2**31 - 1), x[part], y[part], p[part])
            packets.append(aedat_packet(*columns, overflow=int(overflow)))
    return AEDAT_HEADER + b"".join(packets)


# ---- DVS128 Gesture


def gesture_recording(spans, *, count=50, seed=0):
    """Random events before, in and after the `spans` (label 1..11, start, end), in the order of time."""
    rng = np.random.default_rng(seed)
    last = max(end for _, _, end in spans) + 1000
    t = np.sort(rng.integers(0, last, count * (len(spans) + 1)))
    x, y = rng.integers(0, 128, (2, len(t)))
    return events(t, x, y, rng.integers(0, 2, len(t)))


def gesture_files(trials):
    """Names and bytes of the published set; `trials` maps user01_led to (split, spans, columns)."""
    files = {}
    for name, (_, spans, columns) in trials.items():
        files[f"DvsGesture/{name}.aedat"] = aedat_bytes(*columns)
        rows = "".join(f"{label},{start},{end}\n" for label, start, end in spans)
        files[f"DvsGesture/{name}_labels.csv"] = f"class,startTime_usec,endTime_usec\n{rows}".encode()
    for split in ("train", "test"):
        chosen = "".join(f"{name}.aedat\n" for name, (part, _, _) in trials.items() if part == split)
        files[f"DvsGesture/trials_to_{split}.txt"] = chosen.encode()
    return files


def some_trials():
    """Two recordings to train with and one to test."""
    trials = {}
    for seed, (name, split) in enumerate((("user01_led", "train"), ("user02_lab", "train"), ("user24_led", "test"))):
        spans = [(1 + seed, 1000, 5000), (11, 4500, 9000), (2, 10_000, 12_000)]
        trials[name] = (split, spans, gesture_recording(spans, seed=seed))
    return trials


def write_folder(folder, files):
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def write_tar(path, files, *, mode="w:gz"):
    """`files` maps names to bytes, or to TarInfo for links and the like."""
    with tarfile.open(path, mode) as archive:
        for name, data in files.items() if isinstance(files, dict) else files:
            if isinstance(data, tarfile.TarInfo):
                archive.addfile(data)
                continue
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def npy_bytes(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def cut_gesture_files(folder, gestures):
    """Names and bytes of tonic's layout; `gestures` maps (user01_led, label) to columns, time in microseconds."""
    return {
        f"{folder}/{name}/{label}.npy": npy_bytes(np.stack([x, y, p, np.asarray(t) / 1000], axis=1).astype(np.float64))
        for (name, label), (t, x, y, p) in gestures.items()
    }


# ---- SHD


def random_trains(samples=4, *, spikes=30, seed=0):
    """Compact arrays: counts [N, 700] of spikes a unit, and their gaps in ticks of 0.5 ms."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((samples, 700), dtype=np.uint8)
    for row in counts[: samples - 1]:  # the last sample is silent
        np.add.at(row, rng.integers(0, 700, spikes), 1)
    isi = rng.integers(0, 400, int(counts.sum()), dtype=np.uint16)
    labels = (np.arange(samples) % 20).astype(np.uint8)
    return {"counts": counts, "isi": isi, "labels": labels, "speaker": labels, "tick_ms": np.float32(0.5)}


def trains_as_lists(compact):
    """(times in seconds, units) of each sample, sorted by time: one spike at a time, for comparison."""
    gaps, lists = iter(compact["isi"].tolist()), []
    for row in compact["counts"]:
        spikes = []
        for unit, count in enumerate(row):
            tick = 0
            for _ in range(count):
                tick += next(gaps)
                spikes.append((tick, unit))
        spikes.sort(key=lambda spike: spike[0])
        lists.append((np.array([tick for tick, _ in spikes]) * 0.0005, np.array([unit for _, unit in spikes], int)))
    return lists


def write_shd_compact(path, compact):
    stream = io.BytesIO()
    np.savez(stream, **compact)
    path.write_bytes(lzma.compress(stream.getvalue()))
    return path


def write_shd(path, lists, labels, *, times_dtype=np.float16, speakers=None):
    """The published layout: .h5, or with .gz or .zip behind it; by default one speaker says everything."""
    import h5py

    plain = path if path.suffix == ".h5" else path.with_name("plain.h5")
    with h5py.File(plain, "w") as out:
        times = out.create_dataset("spikes/times", (len(lists),), dtype=h5py.vlen_dtype(times_dtype))
        units = out.create_dataset("spikes/units", (len(lists),), dtype=h5py.vlen_dtype(np.uint16))
        for row, (seconds, unit) in enumerate(lists):
            times[row], units[row] = np.asarray(seconds, times_dtype), np.asarray(unit, np.uint16)
        out["labels"] = np.asarray(labels, np.uint16)
        out["extra/speaker"] = np.asarray([0] * len(lists) if speakers is None else speakers, np.uint16)
        out["extra/keys"] = np.array([b"zero", b"one"], dtype="S21")
    if plain != path:
        data = plain.read_bytes()
        plain.unlink()
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(data))
        else:
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(path.name.removesuffix(".zip"), data)
    return path


def fake_shd(root, speakers=(0, 1, 2, 6), each=20, *, spikes=200, seed=0):
    """A small SHD in the published layout: each speaker says `each` digits in turn; speaker 4 is in the test only."""
    rng = np.random.default_rng(seed)
    folder = root / "shd"
    folder.mkdir(parents=True, exist_ok=True)
    for part, who in (("train", speakers), ("test", (4, speakers[0]))):
        of = np.repeat(who, each)
        labels = np.arange(len(of)) % 20
        times = [np.sort(rng.random(spikes)) for _ in of]
        lists = [(time, rng.integers(0, 700, spikes)) for time in times]
        write_shd(folder / f"shd_{part}.h5", lists, labels, speakers=of)
    return folder


# ---- npz and HDF5 with named arrays


def write_npz(path, **arrays):
    np.savez_compressed(path, **arrays)
    return path


def write_hdf5(path, **arrays):
    import h5py

    with h5py.File(path, "w") as out:
        for name, array in arrays.items():
            out[name] = array
    return path


def event_arrays(samples=5, *, side=6, events_each=20, seed=0, unit="t_us"):
    """Arrays of an event file, sorted by time within samples; the last sample is silent."""
    rng = np.random.default_rng(seed)
    lengths = np.array([events_each] * (samples - 1) + [0])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    total = int(offsets[-1])
    t = np.concatenate([np.sort(rng.integers(500, 20_000, length)) for length in lengths])
    return {
        unit: t if unit == "t_us" else t / 1000,
        "x": rng.integers(0, side, total, dtype=np.uint8),
        "y": rng.integers(0, side, total, dtype=np.uint8),
        "p": rng.integers(0, 2, total, dtype=np.uint8),
        "offsets": offsets,
        "labels": np.arange(samples) % 3,
    }


def fake_camera(root, task, *, samples=(20, 10), classes=10, side=34, unit="t_us"):
    """A small set of a camera's events that a fetch could have left in the data root; every class is in both files."""
    folder, edition = root / task, lookup(task).editions[0]
    folder.mkdir(parents=True)
    kept = {}
    for seed, (file, count) in enumerate(zip(edition.files, samples, strict=True)):
        arrays = event_arrays(count + 1, side=side, events_each=300, seed=seed, unit=unit)
        arrays |= {"labels": np.arange(count) % classes, "offsets": arrays["offsets"][:-1]}
        path = write_npz(folder / file.name, **arrays)
        kept[path.name] = Kept(path.name, path.stat().st_size, digest(path))
    Manifest(edition.name, "here", "2022-01-01", kept).write(folder)
    return folder


def fake_mnist(root, train=40, test=10, *, write=write_mnist):
    """A small MNIST that a fetch could have left in the data root; `write` makes its four files."""
    folder = write(root / "mnist", train=train, test=test)
    names = [f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    files = {name: Kept(name, (folder / name).stat().st_size, digest(folder / name)) for name in names}
    Manifest("published", "here", "2022-01-01", files).write(folder)
    return folder
