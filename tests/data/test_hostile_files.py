"""Files made to harm: each ends in one line, in memory that its own bytes account for."""

import gzip
import io
import json
import lzma
import struct
import subprocess
import sys
import tarfile
import textwrap
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest

from bitspike.data.event_files import kind_of, read_image_file
from bitspike.data.shd import read_shd
from helpers.files import (
    AEDAT_HEADER,
    gesture_files,
    npy_bytes,
    some_trials,
    write_hdf5,
    write_tar,
)

resource = pytest.importorskip("resource")
MEMORY = 600 * 2**20  # beyond what importing everything takes
GIGABYTE = 10**9

# name -> (reader, writer of the file, what the line says)
HOSTILE = {}


def hostile(reader, says, suffix=""):
    """A writer of a file that `reader` must refuse with a line that holds `says`."""

    def enter(write):
        HOSTILE[write.__name__] = (reader, write, says, suffix)
        return write

    return enter


def zeros_deflated(head, size):
    """A deflate stream of `head` and so many zeros: the same block again and again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    start = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    return start + (packer.compress(bytes(10**7)) + packer.flush(zlib.Z_FULL_FLUSH)) * (size // 10**7) + b"\3\0"


def zeros_packed(size):
    """As zlib packs them, without the checksum at the end."""
    return b"\x78\x9c" + zeros_deflated(b"", size)


def zeros_gzipped(head, size):
    """As gzip packs them, without the checksum at the end."""
    return b"\x1f\x8b\x08" + bytes(7) + zeros_deflated(head, size) + bytes(8)


# ---- HDF5


@hostile("images", "promises [300000, 100, 100] of uint8, 3000000000 bytes, but the file holds 0 of them")
def hdf5_never_written(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("images", (300_000, 100, 100), "u1", chunks=(1000, 100, 100))
        file["labels"] = np.zeros(3)


@hostile("images", "promises [300000, 100, 100]")
def hdf5_never_written_and_whole(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("images", (300_000, 100, 100), "u1")
        file["labels"] = np.zeros(3)


@hostile("images", "images: is stored in chunks of 2000000000 bytes, though it has only 18")
def hdf5_huge_chunk(path):
    with h5py.File(path, "w") as file:
        data = file.create_dataset(
            "images", (2, 3, 3), "u1", chunks=(20_000, 100, 1000), maxshape=(None,) * 3, compression="gzip"
        )
        data.id.write_direct_chunk((0, 0, 0), zlib.compress(bytes(99)))
        file["labels"] = [0, 1]


@hostile("images", "images: has a chunk that unpacks to more than its 18 bytes")
def hdf5_chunk_that_swells(path):
    with h5py.File(path, "w") as file:
        data = file.create_dataset("images", (2, 3, 3), "u1", chunks=(2, 3, 3), compression="gzip", shuffle=True)
        data.id.write_direct_chunk((0, 0, 0), zeros_packed(GIGABYTE))
        file["labels"] = [0, 1]


@hostile("images", "images: is packed with deflate, gzip; write it with gzip or lzf, once, or unpacked")
def hdf5_packed_twice(path):
    made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    made.set_chunk((2, 3, 3))
    made.set_deflate(9)
    made.set_deflate(9)
    with h5py.File(path, "w") as file:
        space = h5py.h5s.create_simple((2, 3, 3))
        data = h5py.h5d.create(file.id, b"images", h5py.h5t.NATIVE_UINT8, space, made)
        data.write_direct_chunk((0, 0, 0), zlib.compress(zeros_packed(GIGABYTE)))
        file["labels"] = [0, 1]


@hostile("images", "images: is cut into 16000000 chunks, more than the file can hold")
def hdf5_tiny_chunks(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("images", (16_000, 100, 10), "u1", chunks=(1, 1, 1))
        file["labels"] = np.zeros(16_000)


@hostile("images", "labels: must be plain numbers, but is Python objects")
def hdf5_references(path):
    with h5py.File(path, "w") as file:
        file["images"] = np.zeros((2, 3, 3), np.uint8)
        file.create_dataset("labels", (2,), dtype=h5py.ref_dtype)


@hostile("images", "images must be in the file itself, but is in another")
def hdf5_virtual(path):
    layout = h5py.VirtualLayout((2, 3, 3), "u1")
    layout[0] = h5py.VirtualSource("/etc/hostname", "x", (3, 3))
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("images", layout)
        file["labels"] = [0, 1]


def lists(path, samples, change, **options):
    """SHD's layout with one list of 100,000 numbers, and what stands for the lists changed in the file itself."""
    places = []
    with h5py.File(path, "w") as file:
        for name, dtype in (("spikes/times", np.float16), ("spikes/units", np.uint16)):
            data = file.create_dataset(name, (samples,), dtype=h5py.vlen_dtype(dtype), **options)
            data[0] = np.zeros(100_000, dtype)
            file.flush()
            places.append(data.id.get_offset() if data.chunks is None else data.id.get_chunk_info(0).byte_offset)
        file["labels"] = np.zeros(samples, np.uint16)
    raw = bytearray(path.read_bytes())
    for place in places:
        change(raw, place)
    path.write_bytes(raw)


def longer(raw, place):
    raw[place : place + 4] = struct.pack("<I", 2**32 - 1)


def shared(raw, place):
    raw[place : place + 16 * 20_000] = raw[place : place + 16] * 20_000


@hostile("shd", "spikes/times: promises lists of 8589934590 bytes, but the file has ")
def hdf5_long_list(path):
    lists(path, 3, longer)


@hostile("shd", "spikes/times: promises lists of 8589934590 bytes, but the file has ")
def hdf5_long_list_in_a_chunk(path):
    lists(path, 3, longer, chunks=(3,))


@hostile("shd", "spikes/times: promises lists of 4000000000 bytes, but the file has ")
def hdf5_one_list_for_all(path):
    lists(path, 20_000, shared, chunks=(20_000,))


def empty_gap(raw, place):
    at = raw.rfind(b"GCOL") + 16
    raw[at : at + 16] = bytes(16)  # object 0, of no bytes


@hostile("shd", "spikes/units: list 0 does not have the length that it claims; the file is damaged")
def hdf5_heap_with_an_empty_gap(path):
    lists(path, 3, empty_gap)


def beyond(raw, place):
    at = raw.rfind(b"GCOL") + 24
    raw[at : at + 8] = b"\xff" * 8


@hostile("shd", "has lists in a heap at byte ")
def hdf5_heap_with_a_part_beyond(path):
    lists(path, 3, beyond)


def nowhere(raw, place):
    raw[place + 4 : place + 12] = struct.pack("<Q", 2**63)


@hostile("shd", "spikes/times: has lists in a heap at byte 9223372036854775808 that is none")
def hdf5_heap_nowhere(path):
    lists(path, 3, nowhere)


@hostile("images", "the file is damaged or cut short")
def npz_with_members_before_its_start(path):
    npz(path, images=npy_header((2, 3, 3)) + bytes(18))
    raw = bytearray(path.read_bytes())
    struct.pack_into("<I", raw, raw.rfind(b"PK\5\6") + 16, 2**32 - 2)
    path.write_bytes(raw)


@hostile("images", "damaged")
def hdf5_with_a_broken_list_of_arrays(path):
    write_hdf5(path, images=np.zeros((2, 3, 3), np.uint8), labels=[0, 1])
    raw = bytearray(path.read_bytes())
    raw[raw.find(b"SNOD") + 40 : raw.find(b"SNOD") + 48] = b"\xff" * 8
    raw[raw.find(b"HEAP")] = 0
    path.write_bytes(raw)


@hostile("shd", "must unpack to at most 67108864 bytes, but is longer", ".h5.gz")
def gzip_of_nothing(path):
    path.write_bytes(zeros_gzipped(b"\x89HDF\r\n\x1a\n", GIGABYTE))


@hostile("compact", "must unpack to at most 67108864 bytes, but is longer", ".npz.xz")
def xz_of_nothing(path):
    packer = lzma.LZMACompressor(preset=0)
    path.write_bytes(b"".join([*(packer.compress(bytes(10**7)) for _ in range(7)), packer.flush()]))


@hostile("compact", "Memory usage limit", ".npz.xz")
def xz_with_a_huge_dictionary(path):
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 2**20}]
    raw = bytearray(lzma.compress(bytes(999), filters=filters))
    raw[16] = 40  # of the block's header: a dictionary of 4 GiB - 1
    raw[20:24] = struct.pack("<I", zlib.crc32(bytes(raw[12:20])))
    path.write_bytes(raw)


# ---- npz


def npy_header(shape, descr="|u1", version=(1, 0)):
    stream = io.BytesIO()
    write = {(1, 0): np.lib.format.write_array_header_1_0, (2, 0): np.lib.format.write_array_header_2_0}[version]
    write(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def npz(path, method=zipfile.ZIP_DEFLATED, **members):
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("labels.npy", npy_bytes(np.zeros(2, np.uint8)))
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


@hostile("images", "images: its header promises [8000, 1000, 1000] of uint8, 8000000000 bytes, but at most")
def npz_that_lies_about_its_sizes(path):
    npz(path, images=npy_header((8000, 1000, 1000)) + bytes(99))
    raw = bytearray(path.read_bytes())
    place = raw.rfind(b"PK\1\2")
    struct.pack_into("<I", raw, place + 24, 2**32 - 2)  # bytes once unpacked, in the list of members
    path.write_bytes(raw)


@hostile("images", "images: its header has 4294967295 characters")
def npz_with_a_huge_header(path):
    data = b"\x93NUMPY\2\0" + struct.pack("<I", 2**32 - 1)
    npz(path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive, archive.open("images.npy", "w") as out:
        out.write(data)
        for _ in range(10):
            out.write(b" " * 10**7)


@hostile("images", "images: must be stored or deflated, as numpy writes it, but is packed in another way")
def npz_in_bzip2(path):
    npz(path, zipfile.ZIP_BZIP2, images=npy_header((9, 9, 9)) + bytes(729))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("images.npy", npy_header((9, 9, 9)) + bytes(729))


@hostile("images", "must hold at most 4096 arrays, but holds 5000")
def npz_of_many(path):
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(5000):
            archive.writestr(f"{number}.npy", b"")


def deep(depth):
    text = b"{'descr': " + b"(" * depth + b")" * depth + b", 'fortran_order': False, 'shape': (2, 3, 3)}"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text


@hostile("images", "images: ")
def npz_with_a_deep_header(path):
    npz(path, images=deep(4500))


@hostile("images", "images: ")
def npz_with_unfinished_words(path):
    text = b"{'descr': '''|u1, 'shape': (1,2"
    npz(path, images=b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text)


@hostile("images", "images: ")
def npz_of_nothing_but_dimensions(path):
    npz(path, images=npy_header((0,) + (2**62,) * 40))


@hostile("images", "images: must be plain numbers, but is Python objects")
def npz_of_records_with_objects(path):
    npz(path, images=npy_header((2,), [("a", "<f8"), ("b", "|O")]) + bytes(99))


@hostile("images", "images: ")
def npz_of_items_of_no_size(path):
    npz(path, images=npy_header((2**40, 2, 2), "|V0"))


@hostile("images", "holds \\u001b[31mred, labels, but must hold")
def npz_with_names_that_colour(path):
    npz(path, **{"\x1b[31mred": npy_bytes(np.zeros(2))})


# ---- IDX


def idx_head(*shape):
    return struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape)


@hostile("idx", "must have at most 8 dimensions, but its header says 255")
def idx_of_rank_255(path):
    path.write_bytes(idx_head(*[1] * 255) + b"x")


@hostile("idx", "the header promises 0 x 4294967295 x 4294967295, more than the 2147483648 that are read")
def idx_of_nothing_but_large(path):
    path.write_bytes(idx_head(0, 2**32 - 1, 2**32 - 1))


@hostile("idx", "more than the 2147483648 that are read")
def idx_of_a_giant_product(path):
    path.write_bytes(idx_head(*[2**32 - 1] * 8) + b"x")


@hostile("idx", "= 999999990 bytes, more than the file can hold")
def idx_of_packed_zeros(path):
    path.write_bytes(zeros_gzipped(idx_head(999_999_990), GIGABYTE))


# ---- AEDAT


def aedat_head(kind=1, size=8, offset=4, overflow=0, capacity=1, count=1):
    return AEDAT_HEADER + struct.pack("<hhiiiiii", kind, 1, size, offset, overflow, capacity, count, count)


@hostile("aedat", "the header has no line #!END-HEADER")
def aedat_header_without_end(path):
    path.write_bytes(b"#!AER-DAT3.1\r\n" + b"# more\r\n" * 200_000)


@hostile("aedat", "the header has no line #!END-HEADER")
def aedat_line_without_end(path):
    path.write_bytes(b"#!AER-DAT3.1\r\n#" + b"x" * 10**6)


@hostile("aedat", "is damaged: type 1, size -8, overflows 0, 1 of 1 events")
def aedat_of_negative_size(path):
    path.write_bytes(aedat_head(size=-8) + bytes(99))


@hostile("aedat", "is damaged: type 1, size 0, overflows 0, 5 of 5 events")
def aedat_of_size_zero(path):
    path.write_bytes(aedat_head(size=0, capacity=5, count=5) + bytes(99))


@hostile("aedat", "is damaged: type 1, size 8, overflows 0, 9 of 1 events")
def aedat_with_more_than_its_capacity(path):
    path.write_bytes(aedat_head(count=9) + bytes(99))


@hostile("aedat", "is damaged: type 1, size 8, overflows 0, -1 of -1 events")
def aedat_of_negative_capacity(path):
    path.write_bytes(aedat_head(capacity=-1, count=-1) + bytes(99))


@hostile("aedat", "promises 17179869176 bytes of events, but 99 are left")
def aedat_of_two_billion_events(path):
    path.write_bytes(aedat_head(capacity=2**31 - 1, count=2**31 - 1) + bytes(99))


@hostile("aedat", "promises 4611686014132420609 bytes of events, but 99 are left")
def aedat_of_giant_events(path):
    path.write_bytes(aedat_head(kind=3, size=2**31 - 1, capacity=2**31 - 1, count=0) + bytes(99))


@hostile("aedat", "(none)")
def aedat_of_empty_packets(path):
    empty = struct.pack("<hhiiiiii", 1, 1, 8, 4, 0, 0, 0, 0)
    path.write_bytes(AEDAT_HEADER + empty * 100_000)


# ---- tar


def archive(path, *members, **options):
    """The published set, with `members` (headers, with their bytes) before it."""
    with tarfile.open(path, "w:gz", **options) as out:
        for info, data in members:
            out.addfile(info, io.BytesIO(data))
        for name, data in gesture_files(some_trials()).items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))


def member(name, data=b"", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


@hostile("gestures", "(none)", ".tar.gz")
def tar_with_ways_out(path):
    names = ["/harm.aedat", "../harm.aedat", "a/../../harm.aedat", "trials_to_train.txt/../../x"]
    kinds = [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE]
    links = [
        member(f"DvsGesture/user0{at}_led.aedat", type=kind, linkname="/etc/passwd") for at, kind in enumerate(kinds)
    ]
    archive(path, *(member(name, b"harm") for name in names), *links)


@hostile("gestures", "DvsGesture/user01_led.aedat is there twice", ".tar.gz")
def tar_with_a_file_twice(path):
    archive(path, member("DvsGesture/user01_led.aedat", gesture_files(some_trials())["DvsGesture/user01_led.aedat"]))


@hostile("gestures", "it holds more than 5000 files", ".tar.gz")
def tar_of_many(path):
    archive(path, *(member(f"{number}") for number in range(6000)))


@hostile("gestures", "it has a header that is too long", ".tar.gz")
def tar_with_a_long_name(path):
    archive(path, member("x" * 100_000), format=tarfile.GNU_FORMAT)


@hostile("gestures", "it has a header that is too long", ".tar.gz")
def tar_with_a_long_name_as_pax(path):
    archive(path, member("x" * 100_000), format=tarfile.PAX_FORMAT)


@hostile("gestures", "it has a header that is too long", ".tar.gz")
def tar_of_negative_size(path):
    info = tarfile.TarInfo("x")
    raw = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    raw[124:136] = b"\xff" * 12
    raw[148:156] = b"%06o\0 " % (256 + sum(raw[:148]) + sum(raw[156:512]))
    path.write_bytes(gzip.compress(bytes(raw) + bytes(1024)))


@hostile("gestures", "not a whole .tar.gz archive", ".tar.gz")
def tar_of_headers_for_headers(path):
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 2
    path.write_bytes(gzip.compress((info.tobuf(tarfile.GNU_FORMAT) + b"y\0".ljust(512, b"\0")) * 2000))


@hostile("gestures", "trials_to_train.txt: must be of at most 1048576 bytes, but has 8589934591", ".tar.gz")
def tar_with_a_giant_file(path):
    info = tarfile.TarInfo("DvsGesture/trials_to_train.txt")
    info.size = 2**33 - 1
    path.write_bytes(gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(5120)))


@hostile("gestures", "it unpacks to more than 67108864 bytes", ".tar.gz")
def tar_of_packed_zeros(path):
    info = tarfile.TarInfo("zeros")
    info.size = GIGABYTE
    path.write_bytes(zeros_gzipped(info.tobuf(tarfile.GNU_FORMAT), GIGABYTE))


@hostile("gestures", "it unpacks to more than 67108864 bytes", ".tar.gz")
def tar_with_zeros_behind(path):
    archive(path)
    path.write_bytes(zeros_gzipped(gzip.decompress(path.read_bytes()), GIGABYTE))


@hostile("gestures", "its gestures must not overlap so much", ".tar.gz")
def tar_with_the_same_gesture_again_and_again(path):
    count = 20_000
    t, x = np.arange(count), np.zeros(count, int)
    files = gesture_files(
        {
            name: ("train" if at else "test", [(1, 0, count)] * 2, (t, x, x, x))
            for at, name in enumerate(("user01_led", "user02_led"))
        }
    )
    rows = b"class,startTime_usec,endTime_usec\n" + b"1,0,999999\n" * 90_000
    write_tar(path, files | {"DvsGesture/user01_led_labels.csv": rows})


@hostile("gestures", "line 2 must be class,start,end as whole numbers, but is '\\\\u001b[31m", ".tar.gz")
def tar_with_labels_of_one_long_field(path):
    files = gesture_files(some_trials())
    write_tar(path, files | {"DvsGesture/user01_led_labels.csv": b"class\n\x1b[31m" + b"x" * 500_000})


@hostile("gestures", "line 2 must be a class in 1..11, a start and a later end", ".tar.gz")
def tar_with_labels_of_giant_times(path):
    files = gesture_files(some_trials())
    write_tar(path, files | {"DvsGesture/user01_led_labels.csv": b"class\n1,0," + b"9" * 4000})


SCRIPT = """
    import json, resource, sys, time, warnings
    from pathlib import Path
    from bitspike.data import aedat, dvs_gesture, event_files, hdf5_files, idx, shd

    readers = {
        "images": lambda path: (event_files.kind_of(path), event_files.read_image_file(path)),
        "shd": shd.read_shd, "compact": shd.read_shd_compact, "idx": idx.read_idx,
        "aedat": aedat.read_aedat, "gestures": dvs_gesture.read_dvs_gesture,
    }
    warnings.simplefilter("ignore")
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + int(sys.argv[2]),) * 2)
    for name, reader, path in json.loads(Path(sys.argv[1]).read_text()):
        try:
            readers[reader](Path(path))
            said = "(none)"
        except (ValueError, OSError) as error:
            said = str(error)
        except BaseException as error:
            said = f"{type(error).__name__} {error}"
        print(json.dumps([name, said]), flush=True)
"""


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """What each file ends in, in a process that has little memory."""
    if not Path("/proc/self/statm").exists():
        pytest.skip("the memory of a process is read from /proc")
    folder = tmp_path_factory.mktemp("hostile")
    plan = []
    for name, (reader, write, _, suffix) in HOSTILE.items():
        write(folder / f"{name}{suffix}")
        plan.append([name, reader, str(folder / f"{name}{suffix}")])
    (folder / "plan.json").write_text(json.dumps(plan))
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), str(folder / "plan.json"), str(MEMORY)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {
        name: (said, path)
        for (name, said), (_, _, path) in zip(map(json.loads, done.stdout.splitlines()), plan, strict=True)
    }


@pytest.mark.parametrize("name", list(HOSTILE))
def test_it_ends_in_one_line(lines, name):
    said, path = lines[name]
    says = HOSTILE[name][2]
    if says == "(none)":
        assert said == says
        return
    assert said.startswith(path)
    assert says in said
    assert said.isprintable()
    assert len(said) < len(path) + 500
    assert "memory" not in said or "Memory usage limit" in says


def test_they_are_small(lines):
    sizes = {name: Path(path).stat().st_size for name, (_, path) in lines.items()}
    assert max(sizes.values()) < 3_000_000, sizes


# ---- What only looks like it


def round_trip(path, **options):
    values = np.zeros((40, 30, 30), np.uint8)
    values[3] = np.arange(900).reshape(30, 30) % 251
    with h5py.File(path, "w") as file:
        file.create_dataset("images", data=values, **options)
        file["labels"] = np.arange(40) % 3
    assert kind_of(path) == "images"
    assert np.array_equal(read_image_file(path).values[:, 0].numpy(), values)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"chunks": (1, 30, 30)},
        {"compression": "gzip"},
        {"compression": "gzip", "compression_opts": 9, "shuffle": True, "fletcher32": True},
        {"compression": "gzip", "chunks": (40, 30, 30)},
        {"compression": "lzf", "shuffle": True},
        {"scaleoffset": 0},
        {"fletcher32": True},
        {"chunks": (64, 30, 30), "maxshape": (None, 30, 30), "compression": "gzip"},
    ],
    ids=str,
)
def test_packed_hdf5_is_read(tmp_path, options):
    round_trip(tmp_path / "data.h5", **options)


def test_zeros_of_many_megabytes_are_read_packed_and_sparse(tmp_path):
    path = tmp_path / "data.h5"
    for options in ({"compression": "gzip", "data": np.zeros((40, 1000, 1000), np.uint8)}, {"chunks": (1, 1000, 1000)}):
        with h5py.File(path, "w") as file:
            images = file.create_dataset("images", (40, 1000, 1000), "u1", **options)
            images[3:6] = 7  # the rest of the second was never written
            file["labels"] = np.zeros(40)
        assert read_image_file(path).values.sum().item() == 3 * 7 * 10**6


@pytest.mark.parametrize(
    "options", [{}, {"chunks": (2,)}, {"chunks": (2,), "compression": "gzip", "shuffle": True}], ids=str
)
def test_lists_are_read_however_they_are_stored(tmp_path, options):
    path = tmp_path / "shd.h5"
    with h5py.File(path, "w") as file:
        for name, dtype in (("spikes/times", np.float16), ("spikes/units", np.uint16)):
            data = file.create_dataset(name, (5,), dtype=h5py.vlen_dtype(dtype), **options)
            for row in (0, 3, 4):
                data[row] = np.arange(row * 100, dtype=dtype) / (1 if dtype == np.uint16 else 64)
        file["labels"] = np.arange(5, dtype=np.uint16)
    events = read_shd(path)
    assert np.diff(events.offsets).tolist() == [0, 0, 0, 300, 400]
    assert events.x[300:].tolist() == list(range(400))
