"""The work of each command: call the task, report progress, choose the exit code. `changes` has four of them in one frame."""
