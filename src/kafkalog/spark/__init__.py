"""Kafka's log files in Spark. Importing this loads neither Spark nor Arrow nor Numba."""

from __future__ import annotations

from .session import java_home, session

__all__ = ["java_home", "session"]
