"""Rehydrate inside LangChain's agents: ``pip install rehydrate[langchain]``.

RehydrateMiddleware    for ``create_agent(middleware=[...])``: prompts that extend one another
RehydrateEdit          the same as an edit of LangChain's own ContextEditingMiddleware
ExtractiveSummarizer   for LangChain's own SummarizationMiddleware: summaries without a model
ChatModelWriter        a chat model of LangChain as the writer of a BackgroundCompaction
HostReport             the outcome of the last list of messages
RehydrateWarning       something failed, and the messages were sent as they are
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.integrations.host_thread import (
        HostReport as HostReport,
        RehydrateWarning as RehydrateWarning,
    )
    from rehydrate.integrations.langchain.agents import (
        ChatModelWriter as ChatModelWriter,
        ExtractiveSummarizer as ExtractiveSummarizer,
        RehydrateEdit as RehydrateEdit,
    )
    from rehydrate.integrations.langchain.middleware import (
        RehydrateMiddleware as RehydrateMiddleware,
    )

__all__, __dir__, __getattr__ = front(__name__)
