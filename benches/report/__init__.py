"""Writes benches/RESULTS.md: what was wanted, what was measured, against whom, what limits it.

`make bench` runs it. Every figure comes from a run; the sentences that say what limits a figure
stand next to its row. `make bench QUICK=1` measures less and writes a table of its own.

    size.py      how much a run measures
    running.py   runs the benches, which leave files
    load.py      what others took of the processors meanwhile
    figures.py   reads the files: medians by name, tables, parts
    rows.py      a target, what was measured, and the verdict
    timings.py   a timing, and what cells say of it
    sections/    one file a section: which rows, and what is to be said about them
    markdown.py  lines of Markdown
    machine.py   what all of it ran on
    quick.py     the table of a quick run
"""
