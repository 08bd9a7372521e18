"""Subject: the input of all rules, read once: texts, tools, cache marks and budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Literal, NamedTuple

from rehydrate import _native, formats
from rehydrate._check import check_list, check_type
from rehydrate.entry_id import EntryId
from rehydrate.formats._reading import compact_json
from rehydrate.messages import SYSTEM_APART, Conversation, Message, PieceKind
from rehydrate.prompt.ir import CompiledPrompt, PromptIR, Segment
from rehydrate.prompt.request import Budget
from rehydrate.prompt.section import ToolDef

Severity = Literal["info", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")
"""Mildest first: good to know; costs tokens or money every turn; stops the job or is refused."""


class Finding(NamedTuple):
    """A problem that a rule found at one place."""

    rule: str
    severity: Severity
    place: str
    """``history[12]``, ``tools[3]``, ``system``, a section's id; "" for the whole."""
    tokens: int
    """Tokens in every request from there on that the remedy would save."""
    message: str
    remedy: str

    def __str__(self) -> str:
        """Return one line: place, message, remedy, rule."""
        place = f"{self.place}: " if self.place else ""
        return f"{place}{self.message}; {self.remedy} ({self.rule})"

    def is_at_least(self, severity: Severity) -> bool:
        """Return whether it is at least this grave."""
        return SEVERITIES.index(self.severity) >= SEVERITIES.index(severity)


COUNTER = "o200k_base"
_LISTS = ("messages", "input", "contents", "output", "history")


class Text(NamedTuple):
    """One text of the prompt, and its place."""

    place: str
    text: str
    kind: PieceKind
    tokens: int
    role: str
    step: int = 0
    """Number of requests that were answered before it was added."""
    tool: str = ""
    """For a tool's result: the name of the tool."""
    asked: str = ""
    """For a tool's result: the input of its call, as compact JSON."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A prompt or a session, as the rules read it."""

    texts: tuple[Text, ...]
    """All texts in order: those of the history, and of an IR's dynamic sections."""
    static: tuple[Text, ...]
    """The texts before them, sent with every request: the system's."""
    tools: tuple[ToolDef, ...]
    segments: tuple[Segment, ...]
    """The prompt in wire order, where its cache marks are known; empty where they are not."""
    marks: int
    """Number of cache marks in it."""
    media_tokens: int
    budget: Budget
    model: str
    begins: int
    """Index of the first text of the current prompt: a transcript goes on after a compaction."""
    marks_cache: bool
    """Whether the prompt is a whole one for a provider that caches only what is marked."""
    systems: tuple[Text, ...] = ()
    """The system text of each of a session's requests, in order, where these are known."""
    media_before: int = 0
    """Tokens of media before the current prompt, which `media_tokens` has too."""

    @property
    def tokens(self) -> int:
        """Tokens of the current prompt."""
        return self.whole_tokens - self.tokens_before

    @property
    def whole_tokens(self) -> int:
        """Tokens of all of it, as `compact_context` counts them, and of the tools."""
        texts = sum(text.tokens for text in (*self.static, *self.texts))
        return texts + self.tool_tokens + self.media_tokens

    @property
    def tokens_before(self) -> int:
        """Tokens before the last compaction of a transcript."""
        return sum(text.tokens for text in self.texts[: self.begins]) + self.media_before

    @property
    def tool_tokens(self) -> int:
        """Tokens of the tools' definitions."""
        return sum(tool.tokens or 0 for tool in self.tools)

    @property
    def steps(self) -> int:
        """Number of requests that were answered."""
        if not self.texts:
            return 0
        last = self.texts[-1]
        return last.step + (last.role == "assistant")

    @classmethod
    def of(
        cls,
        target: Any,
        *,
        format: str = "auto",  # noqa: A002  the field's word
        tools: Sequence[Any] = (),
        system: Any = None,
        model: str = "",
        budget: Budget | None = None,
    ) -> Subject:
        """Read messages, the body of a request, a PromptIR or a CompiledPrompt. Of a list of such
        requests, read the last, and the system text of all."""
        if budget is not None:
            check_type("budget", budget, Budget, "pass Budget(soft_tokens=...)")
        check_type("model", model, str, "pass the model's name, or leave it out")
        if isinstance(target, (list, tuple)) and target and all(map(is_request, target)):
            last = cls.of(
                target[-1], format=format, tools=tools, system=system, model=model, budget=budget
            )
            return replace(last, systems=counted_texts(map(_system_of, target)))
        ir = target.ir if isinstance(target, CompiledPrompt) else target
        budget = budget or (ir.budget if isinstance(ir, PromptIR) else Budget())
        if isinstance(target, PromptIR):
            return _of_ir(target, budget, model)
        segments: tuple[Segment, ...] = ()
        if isinstance(target, CompiledPrompt):
            segments, model = target.segments, model or target.model
            target, format = target.request, target.provider  # noqa: A001
        is_body = isinstance(target, Mapping)
        if is_body:
            system = system or system_in(target)
            system = _with_marks(system)
            tools = tools or tools_in(target)
            model = model or str(target.get("model") or target.get("modelId") or "")
            target = _listed(target)
        definitions = counted(tools)
        conversation = formats.parse(target, format)
        conversation.check_speakers()
        ids = _message_ids(segments, len(target))
        texts, static = _texts(conversation, ids)
        static = (*counted_texts(system_texts(system)), *static)
        marks = sum(segment.breakpoint for segment in segments)
        if not segments:
            segments, marks = _segments(definitions, system, static, conversation, target, ids)
        compacted = formats.last_compaction(conversation, target)
        later = set() if compacted is None else {*ids[compacted:]}
        begins = (n for n, text in enumerate(texts) if compacted is None or text.place in later)
        media = [(each.index, each.images * _native.MEDIA_TOKENS) for each in conversation.messages]
        takes_system = conversation.format in (*SYSTEM_APART, "plain")
        is_whole = is_body and takes_system and system is not None
        return cls(
            texts,
            static,
            definitions,
            segments,
            marks,
            sum(tokens for _, tokens in media),
            budget,
            model,
            next(begins, len(texts)),
            is_whole and not model.lower().startswith(("gpt", "o1", "o3", "o4")),
            media_before=sum(tokens for index, tokens in media if index < (compacted or 0)),
        )


def counted_texts(texts: Iterable[Text]) -> tuple[Text, ...]:
    """Return the texts with their tokens, all counted in one call."""
    texts = list(texts)
    if not texts:
        return ()
    counts = _native.counts([text.text for text in texts], COUNTER)
    return tuple([text._replace(tokens=n) for text, n in zip(texts, counts, strict=True)])


def counted(tools: Iterable[Any]) -> tuple[ToolDef, ...]:
    """Return the tools with the tokens of their definitions."""
    check_list("tools", tools, "pass a list of tool definitions")
    read = list(map(ToolDef.read, tools))
    counts = _native.counts(list(map(definition, read)), COUNTER)
    return tuple(
        [
            tool if tool.tokens is not None else replace(tool, tokens=count)
            for tool, count in zip(read, counts, strict=True)
        ]
    )


def definition(tool: ToolDef) -> str:
    """Return a tool's definition as compact JSON, as the model reads it."""
    value = tool.raw or {
        "name": tool.name,
        "description": tool.description,
        "input_schema": dict(tool.schema),
    }
    return compact_json(value)


def system_in(body: Mapping[str, Any]) -> Any:
    """Return the system text or blocks of a request's body, as they are in it."""
    gemini = body.get("systemInstruction")
    own = gemini.get("parts") if isinstance(gemini, Mapping) else None
    return body.get("system") or body.get("instructions") or own


def tools_in(body: Mapping[str, Any]) -> Any:
    """Return the tools of a request's body, each function of Gemini's by itself."""
    config = body.get("toolConfig")
    converses = _with_marks(config.get("tools")) if isinstance(config, Mapping) else None
    tools = body.get("tools") or converses or ()
    if isinstance(tools, Mapping):  # the AI SDK's, by name
        pairs = tools.items()
        return [
            {"name": name, **each} if isinstance(each, Mapping) else each for name, each in pairs
        ]
    if not isinstance(tools, (list, tuple)):
        return tools
    key = "functionDeclarations"
    groups = ((tool.get(key) if isinstance(tool, Mapping) else None) or [tool] for tool in tools)
    lists = (group if isinstance(group, (list, tuple)) else [group] for group in groups)
    return [tool for group in lists for tool in group]


def _listed(body: Mapping[str, Any]) -> Any:
    """Return the messages of a request's body."""
    return next((body[key] for key in _LISTS if key in body), ())


def is_request(entry: Any) -> bool:
    """Return whether it is the content of one request, and no message."""
    if isinstance(entry, Mapping):
        is_entry = "role" in entry or "type" in entry
        has_list = any(key in entry for key in _LISTS)
        return not is_entry and has_list and isinstance(_listed(entry), (list, tuple, str))
    return isinstance(entry, (list, CompiledPrompt, PromptIR))


def _system_of(request: Any) -> Text:
    if isinstance(request, PromptIR):
        blocks = [str(section.content) for section in request.sections if section.is_static]
        return Text("system", "\n".join(blocks), PieceKind.TEXT, 0, "system")
    body = request.request if isinstance(request, CompiledPrompt) else request
    texts: list[Text] = []
    if isinstance(body, Mapping):
        texts += system_texts(system_in(body))
        body = _listed(body)
    entries = body if isinstance(body, (list, tuple)) else ()
    leading = list(takewhile(_is_system, entries))
    if leading:
        texts += _texts(formats.parse(leading), _message_ids((), len(leading)))[1]
    place = texts[0].place if texts else "system"
    return Text(place, "\n".join([text.text for text in texts]), PieceKind.TEXT, 0, "system")


def _is_system(entry: Any) -> bool:
    if isinstance(entry, Mapping):
        return entry.get("role") in ("system", "developer")
    return getattr(entry, "type", None) == "system"


def _of_ir(ir: PromptIR, budget: Budget, model: str) -> Subject:
    history = ir.history
    conversation = formats.parse(history.entries, history.format if history.entries else "auto")
    ids = [history.entry_id(index) for index in range(len(history.entries))]
    texts, leading = _texts(conversation, ids)
    static: list[Text] = []
    dynamic: list[Text] = []
    for section in ir.sections:
        if isinstance(section.content, str):
            text = Text(section.id, section.content, PieceKind.TEXT, 0, "user")
            (static if section.is_static else dynamic).append(text)
    return Subject(
        (*counted_texts(dynamic), *texts),
        (*counted_texts(static), *leading),
        counted(ir.tools),
        (),
        0,
        sum(message.images for message in conversation.messages) * _native.MEDIA_TOKENS,
        budget,
        model,
        0,
        False,
    )


def _message_ids(segments: Sequence[Segment], entries: int) -> list[str]:
    """Return names of a list's entries: those of a compiled prompt's segments, or their indices."""
    for kinds in (("message",), ("message", "system")):
        ids = [segment.id for segment in segments if segment.kind in kinds]
        if len(ids) == entries:
            return ids
    return [EntryId.of(index) for index in range(entries)]


def _texts(
    conversation: Conversation, ids: Sequence[str]
) -> tuple[tuple[Text, ...], tuple[Text, ...]]:
    """Return the texts, and the system texts before them."""
    texts: list[Text] = []
    leading: list[Text] = []
    inputs: dict[str, tuple[str, str]] = {}
    step = 0
    before = ""
    for message in conversation.messages:
        if message.role != "assistant" and before == "assistant":
            step += 1
        before = message.role
        inputs.update(_calls(message))
        by = [inputs.get(call, ("", "")) for call in message.answers] or _own_call(message)
        results = sum(piece.kind is PieceKind.TOOL_RESULT for piece in message.pieces)
        found = 0
        for piece in message.pieces:
            tool, value = "", ""
            if piece.kind is PieceKind.TOOL_RESULT and by:
                # One result of several texts, or as many results as texts: else nobody can tell.
                if len(by) == 1 or len(by) == results:
                    tool, value = by[0 if len(by) == 1 else found]
                found += 1
            text = Text(
                ids[message.index], piece.text, piece.kind, 0, message.role, step, tool, value
            )
            is_leading = message.role == "system" and not texts
            (leading if is_leading else texts).append(text)
    return counted_texts(texts), counted_texts(leading)


def _calls(message: Message) -> Iterator[tuple[str, tuple[str, str]]]:
    inputs = [piece.text for piece in message.pieces if piece.kind is PieceKind.TOOL_INPUT]
    if len(inputs) == len(message.calls):
        for call, text in zip(message.calls, inputs, strict=True):
            name, _, value = text.partition(" ")
            yield call, (name, value)


def _own_call(message: Message) -> list[tuple[str, str]]:
    """Return the call of a server's tool whose results are in its own item."""
    inputs = [piece.text for piece in message.pieces if piece.kind is PieceKind.TOOL_INPUT]
    if message.role != "assistant" or len(inputs) != 1:
        return []
    name, _, value = inputs[0].partition(" ")
    return [(name, value)]


def system_texts(system: Any) -> list[Text]:
    """Return the texts of a system text or of its blocks, not counted yet."""
    blocks = system if isinstance(system, (list, tuple)) else [system]
    texts = [block.get("text") if isinstance(block, Mapping) else block for block in blocks]
    return [
        Text("system" if len(texts) == 1 else f"system[{n}]", text, PieceKind.TEXT, 0, "system")
        for n, text in enumerate(texts)
        if isinstance(text, str) and text
    ]


def _segments(
    tools: Sequence[ToolDef],
    system: Any,
    static: Sequence[Text],
    conversation: Conversation,
    entries: Sequence[Any],
    ids: Sequence[str],
) -> tuple[tuple[Segment, ...], int]:
    """Return messages or a request's body in wire order, and how many cache marks it has."""
    sizes = dict.fromkeys(ids, 0)
    counts = _native.message_tokens(conversation, COUNTER)
    for message, count in zip(conversation.messages, counts, strict=True):
        sizes[ids[message.index]] += count
    blocks = system if isinstance(system, (list, tuple)) else []
    parts = [
        (f"tools[{index}]", "tool", tool.tokens or 0, tool.raw) for index, tool in enumerate(tools)
    ]
    for text in static:
        if text.place.startswith("system"):
            number = int(text.place[7:-1] or 0) if text.place != "system" else 0
            marked = blocks[number] if number < len(blocks) else None
            parts.append((text.place, "system", text.tokens, marked))
    for id_, entry in zip(ids, entries, strict=True):
        parts.append((id_, "message", sizes[id_], entry))
    marks = [_marks(value) for _, _, _, value in parts]
    segments = [
        Segment(name, kind, tokens, "", "static", 1, count > 0)  # type: ignore[arg-type]
        for (name, kind, tokens, _), count in zip(parts, marks, strict=True)
    ]
    return tuple(segments), sum(marks)


def _with_marks(blocks: Any) -> Any:
    """Return Converse's tools or blocks with each cache point as a mark on what is before it."""
    if not isinstance(blocks, (list, tuple)):
        return blocks
    made: list[Any] = []
    for block in blocks:
        point = block.get("cachePoint") if isinstance(block, Mapping) else None
        if point is None:
            made.append(block)
        elif made and isinstance(made[-1], Mapping):
            made[-1] = {**made[-1], "cache_control": point}
    return made


def _marks(value: Any, depth: int = 0) -> int:
    """Return the number of cache marks on it and on its blocks."""
    if isinstance(value, Mapping):
        own = int(any(value.get(key) is not None for key in ("cache_control", "cachePoint")))
        inside = value.get("content", value.get("message")) if depth < 3 else None
        return own + _marks(inside, depth + 1)
    if isinstance(value, (list, tuple)):
        return sum(_marks(block, depth + 1) for block in value)
    return 0
