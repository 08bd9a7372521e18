"""The options of a compaction: `rehydrate compact` takes them for one file, `batch` for many."""

from __future__ import annotations

import argparse
from typing import Any

from rehydrate._engine import COUNTERS
from rehydrate.cli.options import add_format_option, ratio, tokens
from rehydrate.compact.arguments import GRANULARITIES, THINKING
from rehydrate.compact.scoring import PROFILES
from rehydrate.messages import PROVIDERS


def add_size_options(what: Any) -> None:
    """Add --ratio, --budget and --query."""
    size = what.add_mutually_exclusive_group()
    size.add_argument(
        "--ratio", type=ratio, default=0.4, metavar="R",
        help="share of the tokens to keep, 0.05 to 1, or a percentage such as 40%% (default: 0.4)",
    )  # fmt: skip
    size.add_argument(
        "--budget", type=tokens, metavar="N", help="tokens to keep instead, such as 20000 or 20k"
    )
    what.add_argument(
        "--query", metavar="TEXT",
        help="what the next turn is about (default: what the user said last)",
    )  # fmt: skip


def add_shape_options(what: Any) -> None:
    """Add what is kept of a message, and for whom: --granularity to --provider."""
    what.add_argument(
        "--granularity", metavar="G", default="message", choices=GRANULARITIES,
        help="message (default): whole messages; excerpt: also parts of long texts, gaps marked",
    )  # fmt: skip
    what.add_argument(
        "--outline", action="store_true",
        help="list the names in what is dropped, in a message of its own where the first gap is",
    )  # fmt: skip
    what.add_argument(
        "--thinking", metavar="T", default="auto", choices=THINKING,
        help="auto (default): what the model takes back of its thinking; keep: all of it; "
        "strip: none, but for an open tool loop",
    )  # fmt: skip
    what.add_argument(
        "--model", metavar="NAME", default="",
        help="the model that is asked next, for --thinking auto; default: the one that the "
        "transcript names, else a Claude that takes no thinking behind a change",
    )  # fmt: skip
    what.add_argument(
        "--provider", choices=PROVIDERS,
        help="for whom a list of chat or plain messages is, where a gateway sends it on; "
        "anthropic, also by a --model that is a Claude: what is kept begins with the user",
    )  # fmt: skip


def add_judging_options(how: Any) -> None:
    """Add --scoring, --counter, --format, --embedder and --no-embedding."""
    how.add_argument(
        "--scoring", metavar="PROFILE", default="balanced", choices=list(PROFILES),
        help="balanced (default), or chitta: the plain three-signal formula",
    )  # fmt: skip
    how.add_argument(
        "--counter", metavar="NAME", choices=COUNTERS,
        help="o200k_base, cl100k_base (exact), words, chars (estimates); default: the profile's",
    )  # fmt: skip
    add_format_option(how)
    embedding = how.add_mutually_exclusive_group()
    embedding.add_argument(
        "--embedder", metavar="MODEL", default="auto",
        help="beside the built-in model, for a --query: the name or folder of an ONNX model, "
        "such as those that `rehydrate model list` shows",
    )  # fmt: skip
    embedding.add_argument(
        "--no-embedding", action="store_true", help="compare words only, without the built-in model"
    )


def compact_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `compact_context` that were passed."""
    return {
        "query": options.query,
        "target_ratio": options.ratio,
        "budget_tokens": options.budget,
        "scoring": options.scoring,
        "embedder": None if options.no_embedding else options.embedder,
        "counter": options.counter,
        "format": options.format,
        "granularity": options.granularity,
        "outline": options.outline,
        "thinking": options.thinking,
        "model": options.model,
        "provider": options.provider,
    }
