"""What a demonstration needs of strides, in one place."""

from __future__ import annotations

from systems.strides.promises import Promise, promises
from systems.strides.seed import seed

__all__ = ["Promise", "promises", "seed"]
