"""DVS128 Gesture: four layouts give the same gestures; archives are never unpacked by their own paths."""

import io
import tarfile
from itertools import pairwise

import numpy as np
import pytest

from bitspike.data import dvs_gesture
from bitspike.data.dvs_gesture import read_dvs_gesture
from bitspike.data.fetch import fetch
from helpers.files import (
    AEDAT_HEADER,
    aedat_bytes,
    aedat_packet,
    cut_gesture_files,
    gesture_files,
    npy_bytes,
    some_trials,
    write_folder,
    write_tar,
)

TRIALS = some_trials()
FILES = gesture_files(TRIALS)


def expected(split, trials=TRIALS):
    """(columns, label) of each gesture, one event after another."""
    gestures = []
    for part, spans, (t, x, y, p) in trials.values():
        for label, start, end in spans if part == split else ():
            kept = [e for e in range(len(t)) if start <= t[e] < end]
            columns = [[int(t[e] - t[kept[0]]) for e in kept]] + [
                [int(column[e]) for e in kept] for column in (x, y, p)
            ]
            gestures.append((columns, label - 1))
    return gestures


def gestures(events):
    edges = list(pairwise(events.offsets))
    columns = (events.t, events.x, events.y, events.p)
    return [
        ([column[a:b].tolist() for column in columns], int(label))
        for (a, b), label in zip(edges, events.labels, strict=True)
    ]


def check(pair, trials=TRIALS):
    for events, split in zip(pair, ("train", "test"), strict=True):
        assert gestures(events) == expected(split, trials)
        assert events.sensor == (128, 128)
        assert (events.t.dtype, events.offsets.dtype, events.labels.dtype) == (np.int64,) * 3
        assert events.x.dtype == events.y.dtype == events.p.dtype == np.uint8


# ---- The published recordings


@pytest.mark.parametrize("inside", ["", "DvsGesture"])
def test_an_extracted_folder(tmp_path, inside):
    check(read_dvs_gesture(write_folder(tmp_path, FILES) / inside))


@pytest.mark.parametrize("mode", ["w:gz", "w"])
@pytest.mark.parametrize("given", ["file", "folder"])
def test_the_archive(tmp_path, mode, given):
    path = write_tar(tmp_path / "DvsGesture.tar.gz", FILES, mode=mode)
    check(read_dvs_gesture(path if given == "file" else tmp_path))
    assert [found.name for found in tmp_path.iterdir()] == ["DvsGesture.tar.gz"], "nothing is unpacked"


@pytest.mark.usefixtures("alone")
def test_an_archive_that_was_packed_again_is_fetched_if_it_can_be_read(tmp_path, root):
    archive = write_tar(tmp_path / "DvsGesture.tar.gz", FILES)
    found = fetch("dvs128", source=tmp_path)
    assert (found.edition, found.folder) == ("packed, local copy, checksum not known", root / "dvs128")
    check(read_dvs_gesture(found.folder))
    archive.write_bytes(archive.read_bytes()[:-100])
    with pytest.raises(FileNotFoundError, match=r"has the md5 .*not a whole \.tar\.gz archive.*it needs [^;]*") as told:
        fetch("dvs128", source=tmp_path)
    assert str(told.value).count("or DvsGesture.tar.gz") == 0


def test_labels_without_the_names_of_their_columns_are_all_read(tmp_path):
    files = dict(FILES)
    for name in FILES:
        if name.endswith("_labels.csv"):
            files[name] = FILES[name].partition(b"\n")[2]
    check(read_dvs_gesture(write_folder(tmp_path, files)))


def test_the_order_in_the_archive_does_not_matter(tmp_path):
    path = write_tar(tmp_path / "DvsGesture.tar.gz", dict(reversed(FILES.items())))
    check(read_dvs_gesture(path))


def test_spans_keep_their_start_and_not_their_end(tmp_path):
    columns = tuple(np.array(column) for column in ([99, 100, 150, 199, 200], [1, 2, 3, 4, 5], [0] * 5, [1] * 5))
    trials = {"user01_led": ("train", [(1, 100, 200)], columns), "user24_led": ("test", [(11, 0, 100)], columns)}
    train, test = read_dvs_gesture(write_tar(tmp_path / "a.tar.gz", gesture_files(trials)))
    assert (train.t.tolist(), train.x.tolist(), train.labels.tolist()) == ([0, 50, 99], [2, 3, 4], [0])
    assert (test.t.tolist(), test.x.tolist(), test.labels.tolist()) == ([0], [1], [10])


def test_a_recording_out_of_order_is_sorted(tmp_path):
    name = "user01_led"
    split, spans, columns = TRIALS[name]
    mixed = np.random.default_rng(0).permutation(len(columns[0]))
    keep = np.argsort(columns[0][mixed], kind="stable")
    trials = TRIALS | {name: (split, spans, tuple(column[mixed][keep] for column in columns))}
    shuffled = TRIALS | {name: (split, spans, tuple(column[mixed] for column in columns))}
    check(read_dvs_gesture(write_folder(tmp_path, gesture_files(shuffled))), trials)


def test_a_gesture_without_events_is_a_silent_sample(tmp_path):
    split, spans, columns = TRIALS["user24_led"]
    trials = TRIALS | {"user24_led": (split, [*spans, (3, 10**7, 10**7 + 1)], columns)}
    _, test = read_dvs_gesture(write_folder(tmp_path, gesture_files(trials)))
    assert np.diff(test.offsets)[-1] == 0
    assert test.labels.tolist() == [2, 10, 1, 2]


def test_progress_is_a_step_a_recording(tmp_path):
    steps = []

    def progress(stage, count):
        steps.append(count)
        return lambda: steps.append("step")

    read_dvs_gesture(write_folder(tmp_path, FILES), progress)
    assert steps == [3, "step", "step", "step"]


def test_recordings_in_no_list_are_left_alone(tmp_path):
    extra = {"DvsGesture/user30_led.aedat": b"broken", "DvsGesture/._user01_led.aedat": b"x", "README.txt": b"hello"}
    check(read_dvs_gesture(write_tar(tmp_path / "DvsGesture.tar.gz", FILES | extra)))


# ---- Archives that cannot be trusted


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_links_and_paths_outside_are_passed_over(tmp_path):
    other = FILES["DvsGesture/user02_lab.aedat"]
    bad = [
        ("/etc/user01_led.aedat", other),
        ("../user01_led.aedat", other),
        ("DvsGesture/../../user01_led.aedat", other),
        ("", special("DvsGesture/user01_led.aedat", tarfile.SYMTYPE, "/etc/passwd")),
        ("", special("a/user01_led.aedat", tarfile.LNKTYPE, "DvsGesture/user02_lab.aedat")),
        ("", special("b/user01_led.aedat", tarfile.FIFOTYPE)),
        ("", special("c/user01_led.aedat", tarfile.DIRTYPE)),
    ]
    check(read_dvs_gesture(write_tar(tmp_path / "DvsGesture.tar.gz", [*bad, *FILES.items()])))


def test_links_in_a_folder_are_passed_over(tmp_path):
    folder = write_folder(tmp_path, FILES) / "DvsGesture"
    (folder / "more").mkdir()
    (folder / "more" / "user01_led.aedat").symlink_to(folder / "user02_lab.aedat")
    check(read_dvs_gesture(folder))


@pytest.mark.parametrize("name", ["user01_led.aedat", "user01_led_labels.csv", "trials_to_test.txt"])
def test_a_file_twice_is_refused(tmp_path, name):
    path = write_tar(tmp_path / "DvsGesture.tar.gz", [*FILES.items(), (f"again/{name}", FILES[f"DvsGesture/{name}"])])
    with pytest.raises(ValueError, match=rf"DvsGesture\.tar\.gz: again/{name} is there twice"):
        read_dvs_gesture(path)


@pytest.mark.parametrize(("what", "limit"), [("MOST_TEXT", 10), ("MOST_RECORDING", 1000)])
def test_files_that_are_too_large_are_refused(tmp_path, monkeypatch, what, limit):
    monkeypatch.setattr(dvs_gesture, what, limit)
    with pytest.raises(ValueError, match=f"must be of at most {limit} bytes, but has"):
        read_dvs_gesture(write_tar(tmp_path / "DvsGesture.tar.gz", FILES))


@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_an_archive_cut_short_is_named(tmp_path, share):
    path = write_tar(tmp_path / "DvsGesture.tar.gz", FILES)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ValueError, match=r"DvsGesture\.tar\.gz: not a whole \.tar\.gz archive") as caught:
        read_dvs_gesture(path)
    assert "\n" not in str(caught.value)


def test_a_wrong_checksum_is_noticed(tmp_path):
    path = write_tar(tmp_path / "DvsGesture.tar.gz", FILES)
    data = bytearray(path.read_bytes())
    data[-8] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"not a whole .* archive .*CRC"):
        read_dvs_gesture(path)


def test_a_cut_inside_a_recording_is_named(tmp_path):
    # Uncompressed, so that the first pass, over texts only, does not notice it before.
    path = write_tar(tmp_path / "DvsGesture.tar", dict(reversed(FILES.items())), mode="w")
    path.write_bytes(path.read_bytes()[:-11_500])
    with pytest.raises(ValueError, match=r"not a whole .* archive"):
        read_dvs_gesture(path)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "DvsGesture.tar.gz").write_bytes(b"not an archive")
    with pytest.raises(ValueError, match=r"not a whole .* archive"):
        read_dvs_gesture(tmp_path)


# ---- Sets that do not hold together


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("user02_lab.aedat", None, r"must hold user02_lab\.aedat, which trials_to_train\.txt asks for"),
        ("user02_lab_labels.csv", None, r"must hold user02_lab_labels\.csv, which trials_to_train\.txt asks for"),
        ("trials_to_test.txt", None, r"must hold trials_to_test\.txt"),
        ("trials_to_test.txt", b"user01_led.aedat\n", "must be in one list, but user01_led is in both"),
        ("trials_to_test.txt", b"../../etc/passwd\n", r"must list files such as user01_led\.aedat, but lists"),
        ("trials_to_test.txt", b"\n", "no gestures were found"),
        ("user01_led.aedat", b"broken", "user01_led.aedat: not an AEDAT file"),
        ("user01_led.aedat", FILES["DvsGesture/user01_led.aedat"][:-3], "user01_led.aedat: packet .* at byte"),
        ("user01_led.aedat", aedat_bytes([1500], [128], [0], [1]), r"x must be in 0\.\.127, but goes over 128"),
        ("user01_led_labels.csv", b"class,start,end\n0,1,2\n", r"line 2 must be a class in 1\.\.11"),
        ("user01_led_labels.csv", b"class,start,end\n12,1,2\n", r"line 2 must be a class in 1\.\.11"),
        ("user01_led_labels.csv", b"class,start,end\n1,3,2\n", "a start and a later end"),
        ("user01_led_labels.csv", b"class,start,end\n1,-3,2\n", "a start and a later end"),
        ("user01_led_labels.csv", b"class,start,end\n1,2,3\n1,2\n", "line 3 must be class,start,end"),
        ("user01_led_labels.csv", b"class,start,end\n1,two,3\n", "line 2 must be class,start,end"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, name, data, says):
    files = dict(FILES)
    files[f"DvsGesture/{name}"] = data
    files = {name: data for name, data in files.items() if data is not None}
    path = write_tar(tmp_path / "DvsGesture.tar.gz", files)
    with pytest.raises(ValueError, match=says):
        read_dvs_gesture(path)


def test_nothing_there_says_what_was_looked_for(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"looked for DvsGesture\.tar\.gz, .*ibmGestureTrain with ibmGestureTest"
    ):
        read_dvs_gesture(tmp_path)
    (tmp_path / "ibmGestureTrain").mkdir()
    with pytest.raises(FileNotFoundError, match="looked for"):
        read_dvs_gesture(tmp_path)


# ---- Gestures cut out

CUT = {
    "ibmGestureTrain": {("user02_led", 10): 0, ("user01_lab", 10): 1, ("user01_lab", 2): 2, ("user01_lab", 0): 3},
    "ibmGestureTest": {("user24_led", 5): 4},
}


def cut_columns(seed):
    rng = np.random.default_rng(seed)
    t = np.sort(rng.integers(5000, 90_000, 12))
    return t, rng.integers(0, 128, 12), rng.integers(0, 128, 12), rng.integers(0, 2, 12)


def cut_files():
    return {
        half: cut_gesture_files(half, {key: cut_columns(seed) for key, seed in gestures.items()})
        for half, gestures in CUT.items()
    }


@pytest.mark.parametrize("archived", [(), ("ibmGestureTrain",), ("ibmGestureTrain", "ibmGestureTest")])
@pytest.mark.parametrize("given", ["", "ibmGestureTrain"])
def test_gestures_cut_out(tmp_path, archived, given):
    for half, files in cut_files().items():
        if half in archived:
            write_tar(tmp_path / f"{half}.tar.gz", files)
        else:
            write_folder(tmp_path, files)
    path = tmp_path / (f"{given}.tar.gz" if given in archived else given)
    for events, half in zip(read_dvs_gesture(path), CUT, strict=True):
        wanted = []
        for (_, label), seed in sorted(CUT[half].items()):
            t, *others = cut_columns(seed)
            wanted.append(([(t - t[0]).tolist(), *(column.tolist() for column in others)], label))
        assert gestures(events) == wanted
        assert events.sensor == (128, 128)


def cut_set(folder, array, name="user01_led/3.npy"):
    files = {**cut_files()["ibmGestureTest"], f"ibmGestureTrain/{name}": npy_bytes(array)}
    return write_folder(folder, files)


def test_a_cut_gesture_out_of_order_is_sorted(tmp_path):
    train, _ = read_dvs_gesture(cut_set(tmp_path, np.array([[1.0, 2, 0, 9.5], [3, 4, 1, 7.25]])))
    assert gestures(train) == [([[0, 2250], [3, 1], [4, 2], [1, 0]], 3)]


@pytest.mark.parametrize(("dtype", "times"), [(np.int64, [7, 9]), (np.float32, [0.007, 0.009])])
def test_named_fields_hold_whole_microseconds_or_milliseconds(tmp_path, dtype, times):
    fields = [("x", np.int16), ("y", np.int16), ("p", bool), ("t", dtype)]
    array = np.array([(1, 2, True, times[0]), (3, 4, False, times[1])], dtype=fields)
    train, _ = read_dvs_gesture(cut_set(tmp_path, array))
    assert gestures(train) == [([[0, 2], [1, 3], [2, 4], [1, 0]], 3)]


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros((3, 5)), r"must be floats \[E, 4\]"),
        (np.zeros((3, 4), np.int32), r"must be floats \[E, 4\]"),
        (np.zeros(3, [("x", int), ("y", int)]), r"must be floats \[E, 4\]"),
        (np.zeros(3, [("x", "S2"), ("y", int), ("p", int), ("t", int)]), "must be lists of numbers"),
        (np.array([[128.0, 0, 0, 0]]), r"x must be in 0\.\.127"),
        (np.array([[0, -1.0, 0, 0]]), r"y must be in 0\.\.127"),
        (np.array([[0, 0.5, 0, 0]]), "y must be whole numbers"),
        (np.array([[0, np.nan, 0, 0]]), r"y must be in 0\.\.127"),
        (np.array([[0, 0, 2.0, 0]]), r"p must be in 0\.\.1"),
        (np.array([[0, 0, 0, np.nan]]), "t must be at least 0"),
        (np.array([[0, 0, 0, -1.0]]), "t must be at least 0"),
        (np.array([{}, {}], dtype=object), "must be plain numbers, but is Python objects"),
    ],
)
def test_wrong_cut_gestures_are_named(tmp_path, array, says):
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    folder = write_folder(tmp_path, cut_files()["ibmGestureTest"])
    write_folder(tmp_path, {"ibmGestureTrain/user01_led/3.npy": stream.getvalue()})
    with pytest.raises(ValueError, match=says) as caught:
        read_dvs_gesture(folder)
    assert "user01_led/3.npy: " in str(caught.value)
    assert str(caught.value).count(str(tmp_path)) == 1


def test_names_of_cut_gestures(tmp_path):
    array = np.zeros((1, 4))
    with pytest.raises(ValueError, match=r"the name of a file is its label, 0\.\.10"):
        read_dvs_gesture(cut_set(tmp_path / "a", array, "user01_led/11.npy"))
    with pytest.raises(ValueError, match=r"must hold files such as user01_led/0\.npy, but has none"):
        read_dvs_gesture(cut_set(tmp_path / "b", array, "others/1.npy"))
    with pytest.raises(ValueError, match="is there twice"):
        read_dvs_gesture(cut_set(cut_set(tmp_path / "c", array), array, "again/user01_led/3.npy"))


def test_a_recording_without_an_event_in_its_gestures_is_refused(tmp_path):
    split, _, columns = TRIALS["user24_led"]
    trials = TRIALS | {"user24_led": (split, [(3, 10**7, 10**7 + 1), (4, 10**8, 10**8 + 1)], columns)}
    with pytest.raises(ValueError, match=r"user24_led\.aedat: none of its 2 gestures has an event"):
        read_dvs_gesture(write_folder(tmp_path, gesture_files(trials)))


def test_a_recording_of_invalid_events_is_refused(tmp_path):
    files = gesture_files(TRIALS)
    name = "DvsGesture/user24_led.aedat"
    columns = TRIALS["user24_led"][2]
    files[name] = AEDAT_HEADER + aedat_packet(*columns, valid=np.zeros(len(columns[0])))
    says = rf"user24_led\.aedat: all {len(columns[0])} polarity events are marked invalid"
    with pytest.raises(ValueError, match=says):
        read_dvs_gesture(write_folder(tmp_path, files))
