"""Inputs of the page in a real browser: what is on the pad, which file counts, and what is said about it."""

import json

import numpy as np
import pytest
import torch

import bitspike
from bitspike.deploy.describe import describe
from bitspike.deploy.model import InputModel
from bitspike.deploy.page import write_page
from helpers import chromium
from helpers.page import after, click, middle, opened, png, seen, text

pytestmark = pytest.mark.skipif(chromium.PROGRAM is None, reason=chromium.WHY_NOT)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages of networks on images, on channels, and on a camera whose times are in seconds."""
    folder = tmp_path_factory.mktemp("pages")
    generator = torch.Generator().manual_seed(0)
    images = bitspike.build("4Conv5-AP2-576Dense10", (1, 28, 28), theta=1.5, steps=6, generator=generator)
    sounds = bitspike.build("20-30-4", beta=0.9, theta=0.5, readout="membrane", generator=generator)
    camera = bitspike.build("4Conv3s2-196Dense5", (2, 16, 16), theta=1.5, generator=generator)
    events = InputModel("events", bin_us=1000, steps=12)
    models = {
        "camera": describe(camera, input=events, metadata={"time_unit": "s", "seed": "1"}),
        "images": describe(images, input=InputModel("image")),
        "sounds": describe(sounds, input=events, metadata={"data": "SHD"}),
        "wide": describe(
            bitspike.build("4Conv3-672Dense2", (1, 16, 14)), input=InputModel("image"), class_names=["cat", "dog"]
        ),
    }
    for name, model in models.items():
        write_page(model, folder / f"{name}.html")
    return folder, models


@pytest.fixture(scope="module")
def tab():
    with chromium.browser() as tab:
        tab.prefer(prefers_reduced_motion="reduce")
        yield tab


def lit(tab) -> float:
    """How much of the pad is light, 0 to 1."""
    return tab.value(
        "((pad) => { const { data } = pad.getContext('2d').getImageData(0, 0, pad.width, pad.height);"
        " let count = 0; for (let i = 0; i < data.length; i += 4) count += data[i] > 100;"
        " return 4 * count / data.length })(document.getElementById('pad'))"
    )


def drop(tab, selector: str, files: dict[str, str]) -> None:
    """Drop files of text on an element."""
    tab.value(
        f"""(() => {{ const data = new DataTransfer();
          for (const [name, text] of Object.entries({json.dumps(files)})) data.items.add(new File([text], name));
          document.querySelector({selector!r}).dispatchEvent(
            new DragEvent("drop", {{ bubbles: true, cancelable: true, dataTransfer: data }})); }})()"""
    )


def seven(size: int, paper: int, pen: int) -> np.ndarray:
    y, x = np.mgrid[0:size, 0:size] / size
    stem = (abs(x - 0.75 + 0.5 * (y - 0.25)) < 0.05) & (y > 0.25) & (y < 0.8)
    return np.where((abs(y - 0.25) < 0.05) & (abs(x - 0.5) < 0.25) | stem, pen, paper).astype(np.uint8)


def test_the_first_stroke_clears_a_sample_and_the_second_does_not(tab, pages):
    opened(tab, pages, "images")
    at, sample = middle(tab, "#pad"), lit(tab)
    assert sample > 0.05
    after(tab, lambda: tab.drag(at(0.1, 0.1), at(0.12, 0.1)))
    first = lit(tab)
    assert 0 < first < 0.02
    after(tab, lambda: tab.drag(at(0.9, 0.9), at(0.88, 0.9)))
    assert lit(tab) > 1.5 * first


def test_the_ground_of_a_picture_changes_nothing(tab, pages, tmp_path):
    opened(tab, pages, "images")
    found = []
    for paper, pen in [(255, 0), (228, 0), (200, 0), (180, 60), (0, 255), (40, 255)]:
        (tmp_path / "a.png").write_bytes(png(seven(200, paper, pen)))
        after(tab, lambda: tab.give_file("#image-file", tmp_path / "a.png"))
        found.append(seen(tab).astype(int))
    assert all(abs(other - found[0]).max() <= 3 for other in found)
    assert found[0].max() == 255


def test_a_dim_picture_of_the_networks_size_is_taken_as_it_is(tab, pages, tmp_path):
    opened(tab, pages, "images")
    pixels = np.random.default_rng(0).integers(0, 26, (28, 28)).astype(np.uint8)
    (tmp_path / "dim.png").write_bytes(png(pixels))
    after(tab, lambda: tab.give_file("#image-file", tmp_path / "dim.png"))
    assert np.array_equal(seen(tab).reshape(28, 28), pixels)


def test_a_file_that_loads_slowly_does_not_replace_a_newer_choice(tab, pages):
    opened(tab, pages, "images")
    tab.value(
        "window.createImageBitmap = () => new Promise((resolve) => (window.finish = () => {"
        " const c = new OffscreenCanvas(50, 50); c.getContext('2d').fillRect(9, 9, 9, 9); resolve(c); }))"
    )
    drop(tab, "#pad", {"slow.png": "x"})
    after(tab, lambda: click(tab, "#samples button"))
    sample = seen(tab)
    tab.value("window.finish()")
    tab.value("new Promise((resolve) => setTimeout(resolve, 80))")
    assert np.array_equal(seen(tab), sample)
    assert text(tab, "#image-text") == ""


def test_events_that_load_slowly_do_not_replace_a_pattern(tab, pages):
    opened(tab, pages, "sounds")
    tab.value("File.prototype.text = () => new Promise((resolve) => (window.finish = () => resolve('1,2')))")
    drop(tab, "#events", {"slow.csv": ""})
    after(tab, lambda: click(tab, "#patterns button"))
    shown = text(tab, "#events-text")
    tab.value("window.finish()")
    tab.value("new Promise((resolve) => setTimeout(resolve, 80))")
    assert text(tab, "#events-text") == shown


def test_samples_of_images_that_are_not_square_keep_their_proportions(tab, pages):
    opened(tab, pages, "wide")
    after(tab, lambda: click(tab, "#samples button"))  # a ring
    tall, wide = tab.value(
        "((pad) => { const { width, height } = pad, { data } = pad.getContext('2d').getImageData(0, 0, width, height);"
        " const lit = [...Array(width * height).keys()].filter((i) => data[4 * i] > 100);"
        " const range = (values) => new Set(values).size;"
        " return [range(lit.map((i) => Math.floor(i / width))), range(lit.map((i) => i % width))];"
        " })(document.getElementById('pad'))"
    )
    assert wide == pytest.approx(tall, abs=2)


def test_the_same_file_can_be_opened_again(tab, pages, tmp_path):
    opened(tab, pages, "images")
    (tmp_path / "a.png").write_bytes(png(seven(50, 0, 255)))
    for _ in range(2):
        after(tab, lambda: tab.give_file("#image-file", tmp_path / "a.png"))
        assert lit(tab) > 0
        assert tab.value("document.getElementById('image-file').value") == ""
        after(tab, lambda: click(tab, "#clear"))
        assert lit(tab) == 0


def test_an_empty_input_has_no_leader(tab, pages, tmp_path):
    opened(tab, pages, "images")
    after(tab, lambda: click(tab, "#clear"))
    assert text(tab, "#verdict") == "…no input yet"
    (tmp_path / "grey.png").write_bytes(png(np.full((60, 60), 128, np.uint8)))
    after(tab, lambda: tab.give_file("#image-file", tmp_path / "grey.png"))
    assert text(tab, "#verdict") == "…the picture is empty"
    assert text(tab, "#now") == ""
    assert tab.value("document.querySelectorAll('#bars.empty').length") == 1
    assert tab.value("document.querySelectorAll('#bars .leads').length") == 0


def test_invert_is_for_pictures_only(tab, pages, tmp_path):
    opened(tab, pages, "images")
    hidden = "document.getElementById('invert-label').hidden"
    assert tab.value(hidden)
    (tmp_path / "a.png").write_bytes(png(seven(60, 255, 0)))
    after(tab, lambda: tab.give_file("#image-file", tmp_path / "a.png"))
    assert not tab.value(hidden)
    at = middle(tab, "#pad")
    after(tab, lambda: tab.drag(at(0.2, 0.2), at(0.6, 0.6)))
    assert tab.value(hidden)
    assert 0 < lit(tab) < 0.2


def test_what_was_said_of_a_file_goes_with_it(tab, pages, tmp_path):
    opened(tab, pages, "images")
    (tmp_path / "no.png").write_text("hello")
    tab.give_file("#image-file", tmp_path / "no.png")
    tab.wait("document.getElementById('image-text').classList.contains('bad')")
    assert tab.value("document.getElementById('image-text').getAttribute('role')") == "status"
    after(tab, lambda: click(tab, "#samples button"))
    assert text(tab, "#image-text") == ""
    assert not tab.value("document.getElementById('image-text').classList.contains('bad')")


def test_files_may_be_dropped_anywhere_and_one_counts(tab, pages):
    opened(tab, pages, "sounds")
    after(tab, lambda: drop(tab, "#answer", {"a.csv": "t_ms,channel\n1,2\n", "b.csv": "1,2"}))
    expected = "a.csv: 1 events, times in ms (says the file) (one file at a time: 1 more not opened)"
    assert text(tab, "#events-text") == expected
    drop(tab, "footer", {"c.csv": "hello\n", "d.csv": "1,2"})
    tab.wait("document.getElementById('events-text').textContent.includes('1 more not opened')")
    assert tab.value("document.getElementById('events-text').classList.contains('bad')")


def test_other_buttons_and_fingers_do_not_draw(tab, pages):
    opened(tab, pages, "images")
    after(tab, lambda: click(tab, "#clear"))
    at = middle(tab, "#pad")
    for kind, place in [("mousePressed", at(0.2, 0.2)), ("mouseMoved", at(0.8, 0.8)), ("mouseReleased", at(0.8, 0.8))]:
        tab.send("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="right", buttons=2)
    assert lit(tab) == 0

    def fingers():
        first, second = (dict(zip("xy", at(x, x), strict=True)) | {"id": i} for i, x in enumerate((0.1, 0.9)))
        tab.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[first])
        tab.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[first, second])
        for k in range(4):
            moved = second | {"y": second["y"] - 20 * k}
            tab.send("Input.dispatchTouchEvent", type="touchMove", touchPoints=[first, moved])
        tab.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    after(tab, fingers)
    assert 0 < lit(tab) < 0.02  # a dot where the first finger was


def test_escape_lifts_the_pen(tab, pages):
    opened(tab, pages, "images")
    tab.value("document.getElementById('pad').focus()")
    tab.key(" ", 32, " ")
    tab.key("ArrowDown", 40)
    after(tab, lambda: tab.key("Escape", 27))
    tab.key("ArrowDown", 40)
    assert lit(tab) == 0


def test_clear_keeps_a_framing_that_was_chosen(tab, pages):
    opened(tab, pages, "images")
    framing = "document.getElementById('framing')"
    assert tab.value(f"{framing}.value") == "mass"
    tab.value(f"{framing}.value = 'fill'; {framing}.dispatchEvent(new Event('change'))")
    after(tab, lambda: click(tab, "#clear"))
    assert tab.value(f"{framing}.value") == "fill"


def test_the_unit_of_time_is_the_networks(tab, pages, tmp_path):
    opened(tab, pages, "camera")
    assert tab.value("document.getElementById('unit').value") == "s"
    (tmp_path / "a.csv").write_text("t,x,y,p\n" + "\n".join(f"{0.001 * k},3,4,{k % 2}" for k in range(12)))
    after(tab, lambda: tab.give_file("#events-file", tmp_path / "a.csv"))
    assert text(tab, "#events-text") == "a.csv: 12 events, times in s"


def test_another_unit_does_not_bring_an_old_file_back(tab, pages):
    opened(tab, pages, "sounds")
    after(tab, lambda: drop(tab, "body", {"a.csv": "1,2\n2,3\n"}))
    after(tab, lambda: click(tab, "#patterns button"))
    shown = text(tab, "#events-text")
    tab.value("document.getElementById('unit').value = 's'; document.getElementById('unit').onchange()")
    tab.value("new Promise((resolve) => setTimeout(resolve, 80))")
    assert text(tab, "#events-text") == shown


def test_axes_and_maps_say_what_they_are(tab, pages):
    opened(tab, pages, "sounds")
    assert text(tab, "#first-channel") == "↑ channel 0, high pitch"
    assert text(tab, "#last-channel") == "↓ channel 19, low pitch"
    opened(tab, pages, "camera")
    assert text(tab, "#polarity-text") == "left: p = 0, mostly OFF; right: p = 1, mostly ON"
    assert "means nothing" in text(tab, "#sequence-input")
    assert text(tab, "#verdict").endswith("a pattern has no right answer")
    assert text(tab, "#more-facts") == "time unitsseed1"


def test_a_browser_without_scripts_says_so_and_shows_nothing_else(tab, pages):
    tab.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        tab.send("Page.navigate", url=(pages[0] / "images.html").absolute().as_uri())
        tab.wait("document.readyState === 'complete' && document.body.innerText.includes('JavaScript')")
        shown = tab.value("document.body.innerText")
        assert "switched off here" in shown
        assert "Play" not in shown
        assert "checking" not in shown
    finally:
        tab.send("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.parametrize("name", ["images", "sounds"])
def test_targets_are_large_enough_for_a_finger(tab, pages, name):
    opened(tab, pages, name)
    small = tab.value(
        "[...document.querySelectorAll('button, .button, select, input[type=range], .check')]"
        ".filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 40).map((e) => e.id || e.textContent)"
    )
    assert small == []


def test_a_low_window_is_not_filled_by_the_playback_bar(tab, pages):
    opened(tab, pages, "images")
    tab.size(320, 180)
    assert tab.value("getComputedStyle(document.querySelector('.playback')).position") == "static"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_bars_stand_out_from_their_track_even_in_forced_colours(tab, pages, scheme):
    opened(tab, pages, "images")
    ratio = """(() => {
      const light = (element) => {
        const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        const [r, g, b] = getComputedStyle(element).backgroundColor.match(/[\\d.]+/g).map((c) => linear(c / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
      };
      const track = document.querySelector("#bars li:not(.leads) .track");
      const [a, b] = [light(track), light(track.firstChild)];
      return Math.max(a, b) / Math.min(a, b); })()"""
    for forced in ("none", "active"):
        tab.prefer(prefers_reduced_motion="reduce", prefers_color_scheme=scheme, forced_colors=forced)
        assert tab.value(ratio) >= 3
    tab.prefer(prefers_reduced_motion="reduce")
