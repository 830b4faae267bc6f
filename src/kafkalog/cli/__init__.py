"""The command line, in two halves so that help is fast: `kafkalog --help` should take less than 0.1 s.

`commands/NAME.py` has the arguments and help of one command and loads nothing heavy: no NumPy, Numba, Arrow or PySpark
(`tests/tidy/test_package.py` runs the help texts and checks). `run/NAME.py` does the work and is imported when the command runs.
`render/` turns results into text, tables and files.
"""
