"""Every invariant that there is: the kernel's, and those of the engine's own shapes."""

from __future__ import annotations

from duework.kernel.checks import KERNEL_CHECKS
from duework.shapes import SHAPES

EVERY = [*KERNEL_CHECKS, *(check for shape in SHAPES for check in shape.checks())]
