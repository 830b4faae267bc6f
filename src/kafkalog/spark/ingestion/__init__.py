"""The pipeline: log folders into Parquet, incrementally and exactly once.

ingest_options   the choices of a run
target           the interface of the place that is written to: durable writes, moves, the lock
local_target, object_target   implement it
lease            which run may work on an object store
manifest         the log of commits under TARGET/_kafkalog, and how a broken run is finished or undone
ingest_plan      what is new since the last commit, cut into tasks
values           decoded values and their schema
task_writing     the work of a task: decode, sort by topic and day, write Parquet
tables           rows of earlier runs: compared with the log, or set aside
executors        tasks on Spark, or on threads of this process
run              all of these, one after the other, and the summary
"""
