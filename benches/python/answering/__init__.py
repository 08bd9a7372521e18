"""The parts of `benches.python.answers`: data, strategies, grading, running, report."""
