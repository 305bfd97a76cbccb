"""The leaky integrate-and-fire scan: `reference` is the definition; `torch`, `c` and `triton` are its fast twins."""

from bitspike.ops.lif.op import Adaptation, Backend, LIFOutput, LIFState, Scan, lif

__all__ = ["Adaptation", "Backend", "LIFOutput", "LIFState", "Scan", "lif"]
