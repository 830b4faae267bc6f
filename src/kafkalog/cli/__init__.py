"""The command line, in two halves so that help is fast: `kafkalog --help` should take less than 0.1 s.

`commands/NAME.py` holds the arguments and help of one command and loads nothing heavy: no NumPy, Numba, Arrow or PySpark, and
nothing that does (`tests/tidy/test_package.py` runs every help text and looks). `run/NAME.py` does the work and is imported when
the command is called. `render/` turns results into text, tables and files for both.
"""
