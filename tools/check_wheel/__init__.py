"""The check of a wheel or an sdist before publishing: `python -m tools.check_wheel dist/*`.

names.py checks file names: version, tags, platforms, and the files of a whole release. contents.py
checks the files inside: exactly the package, licences, metadata.

Standard library only: it runs in any interpreter, the free-threaded one included.
"""
