"""The page in a real browser: it checks itself, answers to mouse, touch, keys and files, and fits its window."""

import numpy as np
import pytest
import torch

import bitspike
from bitspike.deploy.describe import describe
from bitspike.deploy.model import InputModel
from bitspike.deploy.page import write_page
from bitspike.deploy.runtime import plain_engine
from helpers import chromium
from helpers.page import after, middle, opened, png, seen, text

pytestmark = pytest.mark.skipif(chromium.PROGRAM is None, reason=chromium.WHY_NOT)

STEPS = 10
EVENTS = InputModel("events", bin_us=1000, steps=12)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages of networks: on images with glances, on a camera, and on channels with delays and a leaky readout."""
    folder = tmp_path_factory.mktemp("pages")
    generator = torch.Generator().manual_seed(0)
    images = bitspike.build(
        "4Conv5-AP2-576Dense10", (1, 28, 28), theta=1.5, glances=5, steps=STEPS, generator=generator
    )
    sounds = bitspike.build("20-30-4", beta=0.9, theta=0.5, delays=3, readout="membrane", generator=generator)
    camera = bitspike.build("4Conv3s2-196Dense5", (2, 16, 16), theta=1.5, generator=generator)
    models = {
        "camera": describe(camera, input=EVENTS),
        "images": describe(
            images, input=InputModel("image"), metadata={"accuracy": "0.5", "command": "bitspike train"}
        ),
        "sounds": describe(sounds, input=EVENTS, class_names=["a", "b", "c", "d"]),
    }
    for name, model in models.items():
        write_page(model, folder / f"{name}.html")
    return folder, models


@pytest.fixture(scope="module")
def tab():
    with chromium.browser() as tab:
        tab.prefer(prefers_reduced_motion="reduce")  # the last step at once, no playing
        yield tab


def bars(tab):
    return tab.value("[...document.querySelectorAll('#bars .value')].map((cell) => cell.textContent)")


def answer_of(model, pixels: np.ndarray) -> list[str]:
    """The spikes of each class that the definition gives for an image of bytes."""
    x = (pixels.astype(np.float32) / np.float32(255)).reshape(1, *model.input_shape)
    return [str(int(n)) for n in plain_engine.run(model, x, model.steps)[-1].spikes.sum((0, 1)).ravel()]


@pytest.mark.parametrize(("name", "steps"), [("images", 10), ("camera", 8), ("sounds", None)])
def test_the_page_checks_itself_and_asks_for_nothing(tab, pages, name, steps):
    model = opened(tab, pages, name)
    steps = steps or 8 + sum(int(layer.delays.max()) for layer in model.layers)
    assert text(tab, "#check").startswith(f"✓ checked: {steps} of {steps} steps equal")
    assert tab.problems() == []


def test_a_browser_without_workers_runs_the_network_in_the_page(tab, pages):
    script = tab.send("Page.addScriptToEvaluateOnNewDocument", source="delete window.Worker")["identifier"]
    try:
        model = opened(tab, pages, "images")
        assert text(tab, "#check").startswith("✓")
        assert bars(tab) == answer_of(model, seen(tab))
        assert tab.problems() == []
    finally:
        tab.send("Page.removeScriptToEvaluateOnNewDocument", identifier=script)


def test_a_page_whose_weights_were_changed_says_so(tab, pages, tmp_path):
    source = (pages[0] / "sounds.html").read_text(encoding="utf-8")
    at = source.index('"weight":"') + len('"weight":"')
    (tmp_path / "sounds.html").write_text(source[:at] + "AAAAAAAA" + source[at + 8 :], encoding="utf-8")
    opened(tab, (tmp_path, pages[1]), "sounds")
    assert text(tab, "#check").startswith("✗")


def test_a_drawing_is_answered_as_the_definition_answers(tab, pages):
    model = opened(tab, pages, "images")
    at = middle(tab, "#pad")
    after(tab, lambda: tab.value("document.getElementById('clear').click()"))
    assert bars(tab) == answer_of(model, np.zeros(784))
    after(tab, lambda: tab.drag(at(0.3, 0.2), at(0.6, 0.2), at(0.5, 0.8)))
    pixels = seen(tab)
    assert pixels.max() == 255
    assert bars(tab) == answer_of(model, pixels)


def test_a_finger_and_keys_draw_too(tab, pages):
    opened(tab, pages, "images")
    at = middle(tab, "#pad")
    after(tab, lambda: tab.value("document.getElementById('clear').click()"))
    points = [dict(zip("xy", at(0.2 + 0.1 * k, 0.5), strict=True)) for k in range(4)]

    def swipe():
        for kind, point in [("touchStart", points[0]), *(("touchMove", p) for p in points), ("touchEnd", None)]:
            tab.send("Input.dispatchTouchEvent", type=kind, touchPoints=[point] if point else [])

    after(tab, swipe)
    first = seen(tab)
    assert first.any()
    after(tab, lambda: tab.value("document.getElementById('clear').click()"))
    assert not seen(tab).any()
    tab.value("document.getElementById('pad').focus()")
    tab.key(" ", 32, " ")
    for _ in range(8):
        tab.key("ArrowDown", 40)
    after(tab, lambda: tab.key(" ", 32, " "))
    assert seen(tab).any()


@pytest.mark.parametrize("light", [False, True])
def test_a_picture_of_the_networks_size_is_taken_as_it_is(tab, pages, tmp_path, light):
    model = opened(tab, pages, "images")
    pixels = np.zeros((28, 28), np.uint8)
    pixels[4:24, 8:20] = np.random.default_rng(0).integers(0, 256, (20, 12))
    (tmp_path / "a.png").write_bytes(png(255 - pixels if light else pixels))
    after(tab, lambda: tab.give_file("#image-file", tmp_path / "a.png"))
    assert tab.value("document.getElementById('invert').checked") is light
    assert np.array_equal(seen(tab).reshape(28, 28), pixels)
    assert bars(tab) == answer_of(model, pixels)


def test_a_file_that_is_no_image_is_said(tab, pages, tmp_path):
    opened(tab, pages, "images")
    (tmp_path / "no.png").write_text("hello")
    tab.give_file("#image-file", tmp_path / "no.png")
    tab.wait("document.getElementById('image-text').textContent.includes('no.png is no image')")


def test_steps_go_forward_and_back_and_play(tab, pages):
    opened(tab, pages, "images")
    assert text(tab, "#at").startswith(f"{STEPS}/{STEPS}")
    tab.value("document.getElementById('back').click()")
    assert text(tab, "#at") == f"{STEPS - 1}/{STEPS} · glance 5"
    for _ in range(STEPS):
        tab.value("document.getElementById('back').click()")
    assert text(tab, "#at").startswith(f"0/{STEPS}")
    assert set(bars(tab)) == {"0"}
    tab.value("document.getElementById('speed').value = 6; document.getElementById('speed').oninput()")
    tab.value("document.getElementById('play').click()")
    tab.wait(f"document.getElementById('at').textContent.startsWith('{STEPS}/')")
    assert text(tab, "#play") == "Play"


def test_events_are_read_painted_and_answered(tab, pages, tmp_path):
    model = opened(tab, pages, "sounds")
    chance = np.random.default_rng(1)
    t, channel = np.sort(chance.integers(0, 12, 60)), chance.integers(0, 20, 60)
    lines = "\n".join(f"{a}.5,{b}" for a, b in zip(t, channel, strict=True))
    (tmp_path / "events.csv").write_text(f"t,channel\n{lines}\n")
    after(tab, lambda: tab.give_file("#events-file", tmp_path / "events.csv"))
    x = np.zeros((12, 1, 20), np.float32)
    np.add.at(x, (t, 0, channel), 1)
    outputs = plain_engine.run(model, x)
    last = [part.reshape(12, 1, 4) for part in outputs[-1]]
    scores = plain_engine.scores(model, *last).ravel()
    assert [float(value.replace("\N{MINUS SIGN}", "-")) for value in bars(tab)] == pytest.approx(scores, abs=0.0051)
    assert text(tab, "#events-text") == "events.csv: 60 events, times in ms (found from the times)"
    assert text(tab, "#verdict").startswith(model.class_names[int(scores.argmax())])
    at = middle(tab, "#events")
    after(tab, lambda: tab.value("document.getElementById('events-clear').click()"))
    after(tab, lambda: tab.drag(at(0.1, 0.2), at(0.9, 0.8)))
    assert int(text(tab, "#events-text").split()[0]) >= 10


@pytest.mark.parametrize("name", ["images", "sounds", "camera"])
@pytest.mark.parametrize("width", [360, 800, 1400])
def test_nothing_is_wider_than_the_window(tab, pages, name, width):
    opened(tab, pages, name, width)
    assert tab.value("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("name", ["images", "sounds"])
def test_everything_that_can_be_used_has_a_name(tab, pages, name):
    opened(tab, pages, name)
    tree = tab.send("Accessibility.getFullAXTree")["nodes"]
    used = {"button", "slider", "checkbox", "combobox", "application", "img", "Canvas"}
    nodes = [node for node in tree if node.get("role", {}).get("value") in used and not node["ignored"]]
    assert len(nodes) > 12
    assert [node["role"]["value"] for node in nodes if not node.get("name", {}).get("value")] == []


CONTRAST = """(() => {
  const light = (colour) => {
    const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = colour.match(/[\\d.]+/g).map((c) => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    const colour = getComputedStyle(element).backgroundColor;
    return colour === "rgba(0, 0, 0, 0)" ? ground(element.parentElement) : colour;
  };
  const shown = (element) => element.checkVisibility() && !/SCRIPT|OPTION/.test(element.tagName);
  const spoken = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const texts = [...document.querySelectorAll("body *")].filter((element) => shown(element) && spoken(element));
  return Math.min(...texts.map((element) => {
    const [a, b] = [light(getComputedStyle(element).color), light(ground(element))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  }));
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(tab, pages, scheme):
    tab.prefer(prefers_reduced_motion="reduce", prefers_color_scheme=scheme)
    opened(tab, pages, "images")
    assert tab.value(CONTRAST) >= 4.5
