"""The pipeline: log folders into Parquet, incrementally and exactly once.

options    what a run is asked for
target     what is asked of the place that is written to: durable writes, moves, the lock
local_target, object_target   do it
lease      who may work on an object store
manifest   the log of commits under TARGET/_kafkalog, and how a broken run is finished or undone
plan       what is new since the last commit, cut into tasks
writing    what a task does: decode, sort by topic and day, write Parquet
executors  tasks on Spark, or on threads of this process
run        all of these, one after the other
"""
