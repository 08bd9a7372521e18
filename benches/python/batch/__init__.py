"""Batches: `rehydrate batch`, Ray Data and Spark on the same rows, and a plain loop.

`python -m benches.python.batch [ROWS]` prints a Part; each module runs by itself too.

transcripts   rows in any number, made by number, and the real ones
command       `rehydrate batch`: rows a second, cores, memory over time, equal results
engines       Ray Data and Spark, with a worker killed
threads       threads of one process
process_tree  processor time and memory of a process and its children
"""
