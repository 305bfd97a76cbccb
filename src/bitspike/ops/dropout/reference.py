"""The plain definition of dropout whose mask is a pure function of a key, a layer and a place.

The random numbers are Philox-4x32-7 (Salmon et al. 2011, who find 7 rounds enough for every test they know). Four steps
of a neuron share a draw: the mask of step t, row b and neuron n is number t % 4 of the block with counter
(b * N + n, t // 4, layer, 0).
"""

from __future__ import annotations

import torch
from torch import Tensor

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF
ROUNDS = 7


def philox(
    counter: tuple[Tensor, Tensor, Tensor, Tensor], key: Tensor, rounds: int = ROUNDS
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Draw four random 32-bit numbers (in int64) for each counter of four; `key` is one int64, low word first.

    Counters are 32-bit numbers too: larger ones start again at 0.
    """
    c0, c1, c2, c3 = (count & _WORD for count in counter)
    k0, k1 = key & _WORD, (key >> 32) & _WORD
    for _ in range(rounds):
        high0, low0 = _product(_MULTIPLIERS[0], c0)
        high1, low1 = _product(_MULTIPLIERS[1], c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + _WEYL[0]) & _WORD, (k1 + _WEYL[1]) & _WORD
    return c0, c1, c2, c3


def _product(a: int, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the high and the low word of a * b for 32-bit a and b, in int64 without overflow."""
    low, high = a * (b & 0xFFFF), a * (b >> 16)
    middle = (low >> 16) + high  # below 2**49
    return middle >> 16, ((middle & 0xFFFF) << 16) | (low & 0xFFFF)


def dropped_below(p: float) -> int:
    """Return the bound below which a random 32-bit number drops a value."""
    return min(round(p * 2**32), _WORD)


def keep_mask(shape: torch.Size | tuple[int, ...], p: float, key: Tensor, layer: int, first_row: int = 0) -> Tensor:
    """Draw truth values `[T, B, ...]`, each True with probability 1 - p; rows are counted from `first_row` on."""
    neurons = torch.Size(shape[2:]).numel()
    place = torch.arange(shape[1] * neurons, device=key.device) + first_row * neurons
    return (numbers(shape[0], place, key, layer) >= dropped_below(p)).view(shape)


def numbers(steps: int, place: Tensor, key: Tensor, layer: int) -> Tensor:
    """Draw a 32-bit number (in int64) for each step and each of the places `[P]`: `[steps, P]`."""
    block = torch.arange(-(-steps // 4), device=key.device)[:, None]
    still = torch.zeros_like(block)
    return torch.stack(philox((place, block, still + layer, still), key), 1).flatten(0, 1)[:steps]


def dropout(x: Tensor, p: float, key: Tensor, layer: int, first_row: int = 0) -> Tensor:
    """x / (1 - p) where the mask keeps, else 0; x `[T, B, ...]`."""
    kept = keep_mask(x.shape, p, key, layer, first_row)
    return torch.where(kept, x * (1 / (1 - p)), 0)
