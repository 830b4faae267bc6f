"""What each command does, one module per command: call the task, report progress, choose the exit code."""
