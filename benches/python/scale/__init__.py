"""What many threads, memories and transcripts need.

`tools/postgres python -m benches.python.scale` measures, and prints the tables of docs/scale.md.

rates        what one call costs the process and the server, measured here on a real server
round_trips  a relay that makes the server far away
processes    processor time of this process and the server's, its log and disk
simulation   live threads as a closed queueing network, event by event
live         threads that are really run, to check the simulation
plan         the needs of three aims, by arithmetic from the rates
"""
