"""Threads, locks and event loops: how work leaves the event loop and comes back to it.

`handover` is the one way from a coroutine to a thread: a pool of the package's own (`pool`) or a
thread for one call (`threads`). `hybrid_lock` excludes threads and coroutines from one thing,
`locks` survive a fork, `loops` is how a thread calls the caller's loop, `twins` makes `af` of `f`.
"""
