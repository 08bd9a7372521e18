"""Is a wheel or an sdist what is to be published? `python -m tools.check_wheel dist/*`.

    names.py      file names: version, tags, platforms, and what a whole release consists of
    contents.py   what is inside: exactly the package, licences, metadata, nothing else

Standard library only: it runs in any interpreter, the free-threaded one included.
"""
