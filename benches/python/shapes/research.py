"""Research agents: searches, papers and notes; the report needs some of the sources and figures."""

from __future__ import annotations

from typing import NamedTuple

from benches.python.shapes.log import Dice, Log, words_of

SESSIONS = 8
WORDS = words_of("research")


class Paper(NamedTuple):
    """A source: its citation, and the figure that it is cited for."""

    authors: str
    title: str
    url: str
    doi: str
    figure: str
    aspect: str


class Desk:
    """A research session and its topic."""

    def __init__(self, number: int) -> None:
        topics = WORDS["topics"].split("|")
        self.topic, _, aspects = topics[number % len(topics)].partition("/")
        self.dice = Dice(f"research {number}", WORDS)
        self.aspects = self.dice.sample(aspects.split(","), self.dice.randrange(3, 6))
        self.dice.words = {**WORDS, "aspect": "|".join(self.aspects), "topic": self.topic}
        self.log = Log(f"research {number}", ("anthropic", "openai_chat")[number % 2], self.dice)

    def paper(self, aspect: str) -> Paper:
        """Return a paper that might be about this."""
        dice = self.dice
        names = dice.sample(WORDS["last"].split("|"), dice.randrange(1, 4))
        shown = f"{names[0]} et al." if len(names) > 2 else " & ".join(names)
        figure = dice.one("##.## percent|#.### times|###.# units|##.# to ##.# percent")
        return Paper(
            f"{shown} ({dice.randrange(2009, 2025)})",
            dice.say("title", aspect=aspect),
            f"https://{dice.say('host')}/{dice.one('a|pdf|item|doc')}/{dice.code('*******')}",
            dice.code("10.####/") + dice.code("****.####"),
            _figure(figure, dice),
            aspect,
        )

    def prose(self, sentences: int) -> str:
        """Return paragraphs on the topic, with numbers that nobody needs."""
        paragraphs, left = [], sentences
        while left > 0:
            length = min(left, self.dice.randrange(2, 8))
            said = (self.dice.say("prose") for _ in range(length))
            paragraphs.append(" ".join(text[0].upper() + text[1:] for text in said))
            left -= length
        return "\n\n".join(paragraphs)

    def page(self, paper: Paper) -> str:
        """Return a page with the figure somewhere in it."""
        dice = self.dice
        finding = dice.say("finding", aspect=paper.aspect, figure=paper.figure)
        before, after = self.prose(dice.size(9, 0.9, 150)), self.prose(dice.size(14, 1, 250))
        others = [self.paper(dice.choice(self.aspects)) for _ in range(dice.size(5, 1, 60))]
        cited = "\n".join(
            f"[{n}] {other.authors} {other.title}. {other.doi}" for n, other in enumerate(others, 1)
        )
        head = f"{paper.title}\n{paper.authors}\ndoi: {paper.doi}\n\nAbstract"
        body = f"{before} {finding[0].upper()}{finding[1:]}. {after}"
        return f"{head}\n{body}\n\nReferences\n{cited}"


def make(number: int) -> Log:
    """Make one session: questions, sources read, and a report that uses some of them."""
    desk = Desk(number)
    log, dice = desk.log, desk.dice
    log.user(dice.say("start", wanted=", ".join(desk.aspects), most=dice.randrange(600, 1900)))
    chosen: list[Paper] = []
    for aspect in desk.aspects:
        for _ in range(dice.randrange(3, 8)):
            chosen += _look_into(desk, aspect)
        if dice.chance(0.4):
            log.assistant(f"I have enough on {aspect} and go on.")
            log.user(dice.say("react"))
    corrected = _correct(desk, dice.choice(chosen))
    chosen = [corrected if paper.url == corrected.url else paper for paper in chosen]
    log.assistant("I have gone through the sources. Shall I write it?")
    early, late = chosen[0], dice.choice(chosen)
    log.ask(f"Which figure did {early.authors} give for {early.aspect}?", early.figure)
    log.ask(f"What is the DOI of {early.authors}, the one on {early.aspect}?", early.doi)
    log.ask(f"After the correction, which figure holds for {corrected.authors}?", corrected.figure)
    log.ask(f"Where did you read what {late.authors} wrote? Give me the DOI.", late.doi)
    log.user(dice.say("write"))
    log.cut_at.append(len(log.messages))
    for aspect in desk.aspects:
        cited = [paper for paper in chosen if paper.aspect == aspect]
        sentences = [f"{p.authors} found {p.figure} [{p.doi}]. {desk.prose(2)}" for p in cited]
        uses = [value for p in cited for value in (p.doi, p.figure)]
        text = "\n".join([f"## {aspect.capitalize()}", *sentences])
        log.call(("append_file", {"path": "report.md", "text": text}, "ok"), *uses)
    log.assistant("The report is in report.md.")
    return log


def _figure(form: str, dice: Dice) -> str:
    """Return a form with its digits drawn; none begins with 0."""
    return dice.code(form.replace("##", f"{dice.randrange(1, 10)}#", 1))


def _look_into(desk: Desk, aspect: str) -> list[Paper]:
    """Add a search, open one to three of its results; return those that will be cited."""
    log, dice = desk.log, desk.dice
    found = [desk.paper(aspect) for _ in range(dice.size(8, 0.5, 30))]
    lengths = [dice.size(2, 0.5, 8) for _ in found]
    results = "\n\n".join(
        f"{n}. {paper.title}\n   {paper.url}\n   {paper.authors}. {desk.prose(length)}"
        for n, (paper, length) in enumerate(zip(found, lengths, strict=True), 1)
    )
    query = {"query": dice.say("query", aspect=aspect)}
    log.call(("web_search", query, results), said=dice.say("plan", aspect=aspect))
    chosen = []
    for paper in dice.sample(found, min(len(found), dice.randrange(1, 4))):
        if dice.chance(0.15):
            log.call(("open_page", {"url": paper.url}, dice.say("failed")), paper.url)
            continue
        log.call(("open_page", {"url": paper.url}, desk.page(paper)), paper.url)
        if dice.chance(0.5):
            chosen.append(paper)
            said = dice.say("note", aspect=aspect, figure=paper.figure)
            if dice.chance(0.35):
                note = {"text": f"{paper.authors}: {aspect} {paper.figure}, doi {paper.doi}"}
                log.call(("save_note", note, "saved"), paper.doi, paper.figure, said=said)
            elif said:
                sought = {"text": dice.one("Table|limitations|funding|method")}
                log.call(("find_in_page", sought, f"{dice.randrange(40)} matches"), said=said)
        elif dice.chance(0.5):
            counted = f"{dice.randrange(40)} matches"
            log.call(("find_in_page", {"text": aspect}, counted), said=dice.say("bad"))
    return chosen


def _correct(desk: Desk, paper: Paper) -> Paper:
    """Add a correction of one source: another figure counts now."""
    new = paper._replace(figure=_figure("##.### percent", desk.dice))
    reported = desk.dice.say("correction", old=paper.figure, new=new.figure)
    head = f"Correction to: {paper.title}\ndoi: {paper.doi}"
    page = f"{head}\n\n{desk.prose(3)} {reported} {desk.prose(4)}"
    call = ("open_page", {"url": f"{paper.url}/correction"}, page)
    desk.log.call(call, paper.url, said="There is a correction of this one.")
    return new
