"""The settings of training. Every field can be set from a TOML file or with --set."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from bitspike.config import Config, Positive, Real, Truth, Whole

Rate = Annotated[Real, Field(ge=0, lt=1)]
Above0 = Annotated[Real, Field(gt=0, le=1e37)]  # float32 has room for it


class Rates(Config):
    """Starting learning rates of some kinds of parameters; each follows the schedule of `lr`.

    A kind without a value is trained at `lr`.
    """

    norms: Above0 | None = None
    """The rate of batch norms' scales and offsets."""
    delays: Above0 | None = None
    """The rate of delays."""
    gains: Above0 | None = None
    """The rate of gains, in whole numbers: those of `net.gains = 15` start at 4."""
    decays: Above0 | None = None
    """The rate of learnt decays."""

    def given(self) -> dict[str, float]:
        """Return the rates that are set, by their kinds."""
        return self.model_dump(exclude_none=True)


class TrainConfig(Config):
    """Optimizer, learning rate, tricks, loss, protocol, stopping, and what a run keeps."""

    epochs: Positive = 500
    """The most epochs that a run takes."""
    batch: Positive = 128
    """The samples of one iteration, over all processes together."""
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    """The rule that changes the weights."""
    lr: Above0
    """The learning rate, from which `schedule` starts."""
    rates: Rates | None = None
    """The learning rates of parameters that start from another one than `lr`: `norms`, `delays`, `gains`, `decays`."""
    betas: tuple[Rate, Rate] = Field((0.9, 0.999), examples=["[0.9, 0.999]"])
    """The decays of the two averages that adam and adamw keep."""
    eps: Above0 = 1e-8
    """The small number that adam and adamw add to the divisor."""
    weight_decay: Annotated[Real, Field(ge=0, le=1e37)] | None = None
    """With adamw, weights lose `lr` times this share of themselves in each iteration; without a value it is 0.01."""
    momentum: Rate = 0.0
    """The share of the last step that sgd takes again."""
    schedule: Literal["cosine", "constant", "decay"] = "constant"
    """The learning rate over time: `constant`; `cosine`, down to 0 in `half_period` and up again; `decay`, to 0 at
    the end of all epochs. Where a `half_period` is given, the default is `cosine`.
    """
    half_period: Positive | None = None
    """The iterations in which `cosine` takes the learning rate from `lr` to 0."""
    warmup: Rate = 0.0
    """With `decay`, the share of all iterations in which the learning rate rises from 0 to `lr` first."""

    # tricks: each is a file in train/tricks, and asked for by a value that is not none or 0
    grad_clip: Above0 | None = None
    """The largest norm of the gradient of all parameters together; a larger one is scaled down."""
    weight_clip: Above0 | None = None
    """Every parameter but delays and gains is held within plus and minus this, before the optimizer's step."""
    latent_clip: Above0 | None = None
    """Latent weights of binary synapses are held within plus and minus this, after the optimizer's step."""
    harden: Annotated[Real, Field(ge=0, le=1)] = 0.0
    """The share of all iterations in which the first layer's weights turn from real numbers into single bits."""
    shift: Annotated[Whole, Field(ge=0, le=1000)] = 0
    """Training samples are moved by up to so many pixels each way; events of a row of channels, so many channels."""
    contrast: Rate = 0.0
    """Training images are multiplied by a number from 1 - this to 1 + this."""
    stretch: Rate = 0.0
    """The times of a training sample's events are multiplied by a number from 1 - this to 1 + this."""
    time_shift: Annotated[Whole, Field(ge=0, le=100_000)] = 0
    """Events of a training sample are moved by up to so many time steps, to earlier or later."""
    zoom: Rate = 0.0
    """The distances of a training sample's events from the middle of the sensor are multiplied by a number from
    1 - this to 1 + this. Of a row of frequencies it is another voice.
    """
    thin: Annotated[Real, Field(ge=0, le=1)] = 0.0
    """Events of a training sample are lost, more in one part of the sensor than in another: each sample draws a share
    up to this, which is lost where a slow wave over the sensor is highest. Of a row of frequencies it is another
    loudness, and another microphone.
    """
    mix: Rate = 0.0
    """The share of its channels that a training sample of events takes from another one: each sample draws a share up
    to this, and takes each channel with that probability. From a camera it is a rectangle of pixels. With
    `mix_with = "any"` the loss is mixed alike, so it must be `cross_entropy`.
    """
    mix_with: Literal["any", "class"] = "any"
    """The other sample: `any` of the batch, or one of the same `class`, for which the loss stays as it is."""
    delay_soft: Annotated[Real, Field(ge=0, le=1)] = 0.75
    """The share of all iterations in which soft delays become narrower, from half of the longest delay on."""
    delay_width: Annotated[Real, Field(ge=0.2, le=1000)] = 0.3
    """The width of soft delays after that, in time steps; evaluations round delays to whole steps. A narrower Gaussian
    leaves delays without a gradient.
    """
    spike_cost: Annotated[Real, Field(ge=0, le=1e37)] = 0.0
    """The weight of the mean number of hidden spikes of a sample in what is minimized; the loss shown is without it."""
    recalibrate: Annotated[Whole, Field(ge=0, lt=2**31)] = 0
    """The training samples on which batch norm's statistics are measured again before each evaluation; 0: none."""

    loss: Literal["count", "cross_entropy", "trace"] = "count"
    """What is learnt: `count`, how often each class fires; `cross_entropy` of the classes' scores; `trace`, a membrane
    over time (the coding task).
    """
    correct: Real = 0.8
    """With `count`, the share of time steps in which the right class should fire."""
    incorrect: Real = 0.2
    """With `count`, the share of time steps in which each wrong class should fire."""
    logit_scale: Above0 = 10.0
    """With `cross_entropy`, logits are this times a class's score: its spike rate, or what its membrane says."""
    label_smoothing: Rate = 0.0
    """With `cross_entropy`, the share of the target that is spread over all classes alike."""
    class_weights: Literal["none", "balanced"] = "none"
    """With `balanced`, a sample counts in the loss of `count` and `cross_entropy` by its class, so that all classes
    count alike: n / (present * n_c), where n_c of n training samples are of its class, and `present` classes have one.
    """
    over_time: Literal["mean", "sum"] = "mean"
    """With `trace`, whether the error is averaged or summed over time."""

    protocol: Literal["holdout", "paper"] = "holdout"
    """The samples that judge an epoch: `holdout` keeps some training samples for it, `paper` takes the test set."""
    choose: Literal["best", "last"] = "best"
    """The epoch whose network counts: the most accurate one, or the last."""
    patience: Positive | None = None
    """Stop after so many epochs without a better accuracy."""
    evaluate_theta: Literal["current", "final"] = "current"
    """The thresholds of evaluations: the `current` ones, or the `final` ones that training ends with."""
    evaluate_batch: Positive | None = None
    """The samples that are evaluated at once; without a value 256, or 2048 images on a GPU."""

    precision: Literal["float32", "tf32", "bf16", "float64"] = "float32"
    """The arithmetic: `bf16` is for synapses only, everything else is float32 then."""
    on_dead: Literal["warn", "stop"] = "warn"
    """The reaction when a whole layer no longer fires."""
    on_nan: Literal["stop", "warn"] = "stop"
    """The reaction when a number is no longer finite."""
    watch_every: Positive = 20
    """The iterations between two looks at the spikes of a training batch."""
    checkpoint_minutes: Above0 = 5.0
    """The minutes between two checkpoints within an epoch; one is written after each epoch anyway."""
    tensorboard: Truth = True
    """Write events for TensorBoard."""

    @model_validator(mode="before")
    @classmethod
    def _cosine_has_a_period(cls, values: Any) -> Any:
        if isinstance(values, dict) and "schedule" not in values and values.get("half_period") is not None:
            return {**values, "schedule": "cosine"}
        return values

    @model_validator(mode="before")
    @classmethod
    def _adamw_decays(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("optimizer") == "adamw" and values.get("weight_decay") is None:
            return {**values, "weight_decay": 0.01}  # PyTorch's
        return values

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.schedule == "cosine" and self.half_period is None:
            raise ValueError(
                "train.half_period is missing: the iterations in which a cosine schedule takes lr to 0 "
                "(or train.schedule = 'constant')"
            )
        if self.warmup and self.schedule != "decay":
            raise ValueError(
                f"train.warmup belongs to train.schedule = 'decay', but the schedule is {self.schedule!r}; "
                "set it to 0, or the schedule to 'decay'"
            )
        if self.weight_decay is not None and self.optimizer != "adamw":
            raise ValueError(
                f"train.weight_decay belongs to train.optimizer = 'adamw', but the optimizer is {self.optimizer!r}; "
                "set it to none, or the optimizer to 'adamw'"
            )
        if self.mix and self.mix_with == "any" and self.loss != "cross_entropy":
            raise ValueError(
                f"train.mix belongs to train.loss = 'cross_entropy', but the loss is {self.loss!r}; "
                "set it to 0, the loss to 'cross_entropy', or train.mix_with to 'class'"
            )
        if self.choose == "last" and self.patience is not None:
            raise ValueError(
                "train.patience stops where accuracy no longer rises, but train.choose = 'last' is for runs that end "
                "by plan; set train.patience to none, or train.choose to 'best'"
            )
        if self.class_weights != "none" and self.loss == "trace":
            raise ValueError(
                "train.class_weights belongs to train.loss = 'count' or 'cross_entropy', but the loss is 'trace'; "
                "set it to 'none'"
            )
        if not 0 <= self.incorrect < self.correct <= 1:
            raise ValueError(
                f"train.incorrect < train.correct must be rates in [0, 1], but are {self.incorrect} and {self.correct}"
            )
        return self
