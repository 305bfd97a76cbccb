"""The variants of the base recipes that benchmarks/recipe_study.py compares.

A variant has a name, and settings as `bitspike train --set` takes them. `{longest}` stands for the longest delay that
the recipe gives a set: a quarter of its steps, at most 25. FIRST are the numbers of the recipe for sequences before
the study; all variants of sequences but RECIPE start from them, and those of images from no dropout.
"""

from __future__ import annotations

FIRST = ("net.delays={longest}", "net.spike_dropout=0.2", "net.learn_beta=false")
HIDDEN = "net.delays=[0,{longest},{longest}]"
FLOAT32 = "net.binary=false"
NO_DELAYS = "net.delays=0"
FASTER_DELAYS = "train.rates={norms=0.002,delays=0.5}"

RECIPE: dict[str, tuple[str, ...]] = {"recipe": (), "recipe, float32": (FLOAT32,)}

_CHANNELS: dict[str, tuple[str, ...]] = {
    "first": (),
    "float32": (FLOAT32,),
    "no delays": (NO_DELAYS,),
    "no delays, float32": (NO_DELAYS, FLOAT32),
    "delays learn at 0.5": (FASTER_DELAYS,),
    "hidden": (HIDDEN,),
    "hidden, float32": (HIDDEN, FLOAT32),
    "hidden, learnt decays": (HIDDEN, "net.learn_beta=true"),
    "hidden, dropout 0.4": (HIDDEN, "net.spike_dropout=0.4"),
    "hidden, delays learn at 0.5": (HIDDEN, FASTER_DELAYS),
    "hidden, no thin, no stretch": (HIDDEN, "train.thin=0", "train.stretch=0"),
    "hidden, lr 0.01, clip 0.5": (HIDDEN, "train.lr=0.01", "train.latent_clip=0.5"),
}
CHANNELS = {name: (*FIRST, *settings) for name, settings in _CHANNELS.items()}

_CAMERA: dict[str, tuple[str, ...]] = {
    "first": (),
    "float32": (FLOAT32,),
    "learnt decays": ("net.learn_beta=true",),
    "no dropout": ("net.spike_dropout=0",),
    "dropout 0.4": ("net.spike_dropout=0.4",),
    "no thin": ("train.thin=0",),
    "lr 0.01": ("train.lr=0.01",),
    "slope 3": ("net.slope=3",),
}
CAMERA = {name: (*FIRST[1:], *settings) for name, settings in _CAMERA.items()}  # the recipe gives it no delays

_IMAGES: dict[str, tuple[str, ...]] = {
    "first": (),
    "float32": (FLOAT32,),
    "dropout 0.1": ("net.spike_dropout=0.1",),
    "dropout 0.3": ("net.spike_dropout=0.3",),
    "20 steps": ("net.steps=20",),
    "lr 0.01": ("train.lr=0.01",),
    "slope 1.5": ("net.slope=1.5",),
    "clip 0.5": ("train.latent_clip=0.5",),
}
IMAGES = {name: ("net.spike_dropout=0", *settings) for name, settings in _IMAGES.items()}


def variants_for(shape: tuple[int, ...], steps: int | None) -> dict[str, tuple[str, ...]]:
    """Return the variants for the kind of data: a row of channels, a camera or images; the recipe comes first.

    `steps` is None for images.
    """
    if steps is None:
        return RECIPE | IMAGES
    return RECIPE | (CHANNELS if len(shape) == 1 else CAMERA)
