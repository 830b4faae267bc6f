"""The pipeline: log folders into tables, incrementally and exactly once.

ingest_options   the choices of a run
target           the interface of the place that is written to: durable writes, moves, the lock
local_target, object_target   implement it
lease            which run may work on an object store
ledger           the interface of how far a target's runs came, and of how a run publishes
folder_ledger    for folders of Parquet, by the commits of manifest
lake_ledger      for tables of a lake, by their own commits: lake_table, which iceberg and delta implement
ingest_plan      what is new since the last commit, cut into tasks
values           decoded values and their schema
layout           where files go: folders by topic and day, or (lake_files) those of a lake, with their columns
task_writing     the work of a task: decode, sort by topic and day, write Parquet; file_statistics is what comes back
tables           rows of earlier runs: compared with the log, or set aside
executors        tasks on Spark, or on threads of this process
run              all of these, one after the other, and the summary
"""
