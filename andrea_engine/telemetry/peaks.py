"""Peak matrix throughput of NVIDIA devices, as data, and what share of it a training run uses (MFU)."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

MatmulPrecision = Literal["bf16", "tf32", "fp32"]


class Peak(NamedTuple):
    """TFLOP/s without sparsity, with float32 accumulation; None where the device has no such unit."""

    bf16: float | None
    tf32: float | None
    fp32: float  # the ordinary units, no tensor cores


# Device names as the driver gives them, in the order they are tried. From NVIDIA's data sheets and architecture white
# papers, boost clock; GeForce cards accumulate in float32 at half of their advertised float16 rate. An add-in card and
# an SXM module of one name differ. Names with a letter more (Ti, SUPER, D, S) are other devices.
_PEAKS: tuple[tuple[str, Peak], ...] = (
    (r"B200", Peak(2250.0, 1125.0, 75.0)),
    (r"H200 NVL", Peak(835.5, 417.5, 60.0)),
    (r"G?H200", Peak(989.4, 494.7, 66.9)),
    (r"H[18]00 NVL", Peak(835.5, 417.5, 60.0)),
    (r"H[18]00 PCIe", Peak(756.0, 378.0, 51.2)),
    (r"H[18]00", Peak(989.4, 494.7, 66.9)),
    (r"A[18]00", Peak(312.0, 156.0, 19.5)),
    (r"A30", Peak(165.0, 82.0, 10.3)),
    (r"A40", Peak(149.7, 74.8, 37.4)),
    (r"A10G", Peak(70.0, 35.0, 35.0)),
    (r"A10", Peak(125.0, 62.5, 31.2)),
    (r"L40S", Peak(362.1, 183.2, 91.6)),
    (r"L40", Peak(181.1, 90.5, 90.5)),
    (r"L4", Peak(121.0, 60.0, 30.3)),
    (r"V100-PCIE", Peak(None, None, 14.0)),
    (r"V100", Peak(None, None, 15.7)),
    (r"T4", Peak(None, None, 8.1)),
    (r"RTX 6000 Ada", Peak(364.2, 182.1, 91.1)),
    (r"RTX A6000", Peak(154.8, 77.4, 38.7)),
    (r"RTX A5000", Peak(111.1, 55.6, 27.8)),
    (r"RTX A4000", Peak(76.7, 38.3, 19.2)),
    (r"RTX 5090", Peak(209.5, 104.8, 104.8)),
    (r"RTX 5080", Peak(112.6, 56.3, 56.3)),
    (r"RTX 5070 Ti", Peak(87.9, 43.9, 43.9)),
    (r"RTX 5070", Peak(61.7, 30.9, 30.9)),
    (r"RTX 4090 D", Peak(147.0, 73.5, 73.5)),
    (r"RTX 4090", Peak(165.2, 82.6, 82.6)),
    (r"RTX 4080 SUPER", Peak(104.4, 52.2, 52.2)),
    (r"RTX 4080", Peak(97.5, 48.7, 48.7)),
    (r"RTX 4070 Ti SUPER", Peak(88.2, 44.1, 44.1)),
    (r"RTX 4070 Ti", Peak(80.2, 40.1, 40.1)),
    (r"RTX 4070 SUPER", Peak(71.0, 35.5, 35.5)),
    (r"RTX 4070", Peak(58.3, 29.1, 29.1)),
    (r"RTX 4060 Ti", Peak(44.1, 22.1, 22.1)),
    (r"RTX 4060", Peak(30.2, 15.1, 15.1)),
    (r"RTX 3090 Ti", Peak(80.0, 40.0, 40.0)),
    (r"RTX 3090", Peak(71.0, 35.6, 35.6)),
    (r"RTX 3080 Ti", Peak(68.2, 34.1, 34.1)),
    (r"RTX 3080", Peak(59.5, 29.8, 29.8)),
    (r"RTX 3070", Peak(40.6, 20.3, 20.3)),
    (r"RTX 3060", Peak(25.5, 12.7, 12.7)),
    (r"RTX 2080 Ti", Peak(None, None, 13.4)),
)
# Cut down by power or partitioned: the name does not tell how much is left.
_UNKNOWN = re.compile(r"\b(Laptop|Max-Q|Mobile|MIG)\b", re.IGNORECASE)
_VARIANT = r"(?! ?(?:Ti|SUPER|D|NVL)\b)"  # the entries of these stand above those of the plain names


def device_peak(device_name: str) -> Peak | None:
    """The entry of a device by the name that the driver gives it, None when there is none."""
    if _UNKNOWN.search(device_name):
        return None
    for pattern, peak in _PEAKS:
        if re.search(rf"(?<![A-Za-z0-9]){pattern}(?![A-Za-z0-9]){_VARIANT}", device_name):
            return peak
    return None


def peak_tflops(device_name: str, precision: MatmulPrecision) -> float | None:
    """Peak of a device in one precision, None when device or unit is unknown."""
    peak = device_peak(device_name)
    return None if peak is None else getattr(peak, precision)


def mfu(tokens_per_second: float, flops_per_token: float, device_name: str, precision: MatmulPrecision) -> float | None:
    """Model FLOPs utilisation (Chowdhery et al. 2022, PaLM, appendix B) as a share of 1; None when the peak is unknown.

    It counts what the model needs, not what the kernels do: recomputation does not raise it. A CPU has no entry here,
    its peak is only known by measuring it.
    """
    tflops = peak_tflops(device_name, precision)
    return None if tflops is None else tokens_per_second * flops_per_token / (1e12 * tflops)
