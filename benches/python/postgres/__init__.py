"""A memory on PostgreSQL: what it finds, how fast it searches, what many processes add.

`python -m benches.python.postgres` starts a server by `tools/postgres` and prints a Part; under
`tools/postgres --chroot DIR` it takes that one. `--table` prints lines instead.

quality   LoCoMo's evidence among the first hits, next to the file's
speed     searches and recalls at sizes, next to full-text search alone
writers   adds a second of eight processes
"""
