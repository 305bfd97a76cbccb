"""The settings of training. Every field can be set from a TOML file or with --set."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from bitspike.config import Config, Positive, Real, Truth, Whole

Rate = Annotated[Real, Field(ge=0, lt=1)]
Above0 = Annotated[Real, Field(gt=0, le=1e37)]  # float32 has room for it


class TrainConfig(Config):
    """Optimizer, learning rate, tricks, loss, protocol, stopping, and what a run keeps."""

    epochs: Positive = 500
    batch: Positive = 128  # samples an iteration, over all processes
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    lr: Above0
    betas: tuple[Rate, Rate] = (0.9, 0.999)  # adam, adamw
    eps: Above0 = 1e-8
    weight_decay: Annotated[Real, Field(ge=0, le=1e37)] | None = None  # adamw: weights lose lr times this a step; 0.01
    momentum: Rate = 0.0  # sgd
    schedule: Literal["cosine", "constant", "decay"] = "constant"  # given a half_period, cosine
    half_period: Positive | None = None  # cosine only: iterations from lr down to 0; then it rises again
    warmup: Rate = 0.0  # decay: share of all iterations in which lr rises from 0, before it falls to 0

    # tricks: each is a file in train/tricks, and asked for by a value that is not none or 0
    grad_clip: Above0 | None = None  # norm over all parameters
    weight_clip: Above0 | None = None  # every parameter, before the optimizer's step
    latent_clip: Above0 | None = None  # latent weights of binary synapses, after the optimizer's step
    harden: Annotated[Real, Field(ge=0, le=1)] = 0.0  # share of all iterations in which layer 1 becomes one bit
    shift: Annotated[Whole, Field(ge=0, le=1000)] = 0  # images: moved by up to so many pixels each way while training
    contrast: Rate = 0.0  # images: times 1 - this to 1 + this, while training
    recalibrate: Annotated[Whole, Field(ge=0, lt=2**31)] = 0  # training samples for evaluations' batch norm; 0: none

    loss: Literal["count", "cross_entropy", "trace"] = "count"
    correct: Real = 0.8  # count: share of steps in which the right class should fire, and the others
    incorrect: Real = 0.2
    logit_scale: Above0 = 10.0  # cross_entropy: logits are this times the spike rate
    label_smoothing: Rate = 0.0  # cross_entropy: share of the target that all classes get alike
    over_time: Literal["mean", "sum"] = "mean"  # trace: how the error is taken over time

    protocol: Literal["holdout", "paper"] = "holdout"
    choose: Literal["best", "last"] = "best"  # the epoch that counts: the most accurate, or the last
    patience: Positive | None = None  # stop after so many epochs without a better accuracy
    evaluate_theta: Literal["current", "final"] = "current"  # thresholds of an evaluation between epochs
    evaluate_batch: Positive | None = None  # samples at once; none: 256, on a GPU 2048 images

    precision: Literal["float32", "tf32", "bf16", "float64"] = "float32"
    on_dead: Literal["warn", "stop"] = "warn"
    on_nan: Literal["stop", "warn"] = "stop"
    watch_every: Positive = 20  # iterations between looks at the spikes of a training batch
    checkpoint_minutes: Above0 = 5.0  # within an epoch; one is written after each anyway
    tensorboard: Truth = True

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
        if self.choose == "last" and self.patience is not None:
            raise ValueError(
                "train.patience stops where accuracy no longer rises, but train.choose = 'last' is for runs that end "
                "by plan; set train.patience to none, or train.choose to 'best'"
            )
        if not 0 <= self.incorrect < self.correct <= 1:
            raise ValueError(
                f"train.incorrect < train.correct must be rates in [0, 1], but are {self.incorrect} and {self.correct}"
            )
        return self
