"""Texts that the help of several commands shares."""

from __future__ import annotations

from .failure import EXIT_CODES

EXIT_CODES_TEXT = "\b\nExit codes:\n" + "\n".join(f"  {code:<5}{meaning}" for code, meaning in EXIT_CODES.items())
