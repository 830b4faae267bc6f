"""The demo: `disk` makes the log directory of a dead broker, `story` says what is typed on it and why, `telling` runs it.

The steps are data. A new one is an entry of `story.STEPS`; its command runs as a user would type it, and the demo fails if the
exit code or the output is not what the step says.
"""
