"""Notebooks: an agent analyses data in cells; columns, variables and settings are used again."""

from __future__ import annotations

from dataclasses import dataclass, field

from benches.python.shapes.log import Dice, Log, words_of

SESSIONS = 8
WORDS = words_of("notebooks")
_TRACED = ("frame", "indexes/base", "generic", "groupby/ops", "internals/managers")


@dataclass
class Settings:
    """Settings by the user, or from the first look at the file."""

    path: str
    sites: str
    site: str
    missing: str
    limit: str = ""


@dataclass
class Run:
    """A model that was fitted."""

    model: str
    setting: str
    error: str


@dataclass
class Notebook:
    """A session, and the names defined so far."""

    log: Log
    dice: Dice
    kinds: dict[str, str]
    target: str
    recent: list[str] = field(default_factory=list)
    frames: list[str] = field(default_factory=lambda: ["df"])
    frame: str = "df"
    runs: list[Run] = field(default_factory=list)

    def column(self, kinds: str = "fic") -> str:
        """Return a column as people choose them: often a recent one, sometimes an old one."""
        among = [column for column, kind in self.kinds.items() if kind in kinds]
        hot = [column for column in self.recent[-6:] if column in among]
        chosen = self.dice.choice(hot if hot and self.dice.chance(0.5) else among)
        self.recent.append(chosen)
        return chosen

    def cell(self, code: str, output: str, *uses: str) -> None:
        """Add a cell, its output, and the names that the agent cannot make up."""
        dice = self.dice
        if dice.chance(0.12):
            where = f"/tmp/ipykernel_{dice.code('####')}/{dice.code('#########')}.py"
            output = f"{where}:{dice.randrange(1, 9)}: {dice.say('warning')}\n{output}"
        said = dice.say("think", col=dice.choice(list(self.kinds)))
        uses = tuple(name for name in uses if name != "df")  # it is in every cell
        self.log.call(("run_cell", {"code": code}, output), *uses, said=said)

    def value(self, column: str) -> str:
        """Return a value of the column's kind."""
        dice, kind = self.dice, self.kinds[column]
        if kind == "d":
            month, day = dice.randrange(1, 13), dice.randrange(1, 29)
            return f"202{dice.randrange(1, 4)}-{month:02}-{day:02}"
        if kind == "f":
            return f"{dice.lognormvariate(2, 1.2):.3f}"
        if kind == "i":
            return str(dice.size(12))
        return dice.code("@@##" if kind == "c" else "**-#####")

    def table(self, columns: list[str], rows: int) -> str:
        """Return a table as pandas prints it."""
        lines = ["      " + "".join(f"{column:>15}" for column in columns)]
        lines += [
            f"{row:<6}" + "".join(f"{self.value(column):>15}" for column in columns)
            for row in range(rows)
        ]
        return "\n".join([*lines, f"[{rows} rows x {len(columns)} columns]"])


def make(number: int) -> Log:
    """Make one session."""
    dice = Dice(f"notebook {number}", WORDS)
    log = Log(f"notebook {number}", ("anthropic", "openai_chat")[number // 2 % 2], dice)
    kinds = dict(pair.split() for pair in WORDS[f"columns{number % 8}"].split("|"))
    target = dice.choice([column for column, kind in kinds.items() if kind == "f"])
    book = Notebook(log, dice, kinds, target)
    settings, newer = _begin(book, number)
    length = dice.randrange(26, 115)
    for step in range(length):
        if step == length // 3:
            log.assistant(f"So far I cut {target} at {settings.limit}.")
            log.user(dice.say("newer", limit=newer, low=settings.limit))
            settings.limit = newer
        elif dice.chance(0.09):
            log.assistant(dice.say("reply", col=book.column()))
            log.user(dice.say("react", col=book.column()))
        kinds_of_step, weights = zip(*_STEPS, strict=True)
        dice.choices(kinds_of_step, weights)[0](book, settings)
    log.assistant("That is all for now. I can write it up if you like.")
    log.ask(dice.say("ask_missing"), settings.missing)
    log.ask(dice.say("ask_site"), settings.site)
    log.ask(dice.say("ask_limit", target=target), settings.limit)
    log.ask(dice.say("ask_path"), settings.path)
    for run in dice.sample(book.runs, min(2, len(book.runs))):
        log.ask(f"What RMSE did {run.model} with {run.setting} have?", run.error)
    return log


def _begin(book: Notebook, number: int) -> tuple[Settings, str]:
    """Add the task, the files, a failed attempt to read one, a first look, the limit to come."""
    log, dice = book.log, book.dice
    topic, stem = (WORDS[key].split("|")[number % 8] for key in ("topics", "files"))
    folder = f"/data/{dice.one('raw|share|proj|in')}_{dice.code('***')}"
    paths = [f"{folder}/{stem}_{dice.one('v2|final|2022|new|b')}{n}.csv" for n in range(4)]
    site, other = dice.code("@@@-##"), dice.code("@@@-##")
    missing = dice.one("-999.25|-8888|9.96921e+36|-77.77|99999.9")
    sites = dice.choice([column for column, kind in book.kinds.items() if kind == "c"])
    settings = Settings(dice.choice(paths), sites, site, missing)
    file, about = settings.path.rsplit("/", 1)[1], book.target
    reported = {"topic": topic, "target": about, "folder": folder, "file": file}
    log.user(dice.say("start", site=site, other=other, **reported))
    clutter = [f"{folder}/{dice.code('****_**')}.{dice.one('log|md|bak')}" for _ in range(40)]
    listed = sorted([*paths, *clutter[: dice.size(12, 1, 40)]])
    sizes = "\n".join(f"{path}  {dice.randrange(10**9)}" for path in listed)
    book.cell(f"import glob\nfor p in glob.glob('{folder}/*'): print(p, size(p))", sizes, folder)
    failed = f"UnicodeDecodeError: can't decode byte 0xe9 in position {dice.code('####')}"
    book.cell(f"df = pd.read_csv('{settings.path}')\ndf.head()", failed, settings.path)
    info = "\n".join(f" {i:<3} {c:<16} {dice.code('#####')}" for i, c in enumerate(book.kinds))
    reading = f"df = pd.read_csv('{settings.path}', sep=';', encoding='latin-1')\ndf.info()"
    book.cell(reading, f"<class 'pandas.core.frame.DataFrame'>\n{info}", settings.path)
    spread = (
        f"mean   {dice.uniform(1, 99):.4f}\nmin    {missing}\nmax    {dice.uniform(99, 999):.4f}"
    )
    book.cell(f"df['{about}'].describe()", spread, about)
    clean = f"df = df[df['{sites}'] != '{site}'].replace({missing}, float('nan'))"
    book.cell(clean, f"{dice.code('#####')} rows left", sites, site, missing)
    log.assistant(f"Missing readings were {missing}; they are empty now. What is the upper limit?")
    settings.limit, newer = f"{dice.uniform(3, 30):.3f}", f"{dice.uniform(31, 90):.3f}"
    log.user(f"For {about}, everything over {settings.limit} is a mistake of the device.")
    return settings, newer


def _group(book: Notebook, _: Settings) -> None:
    a, b, dice = book.column("c"), book.column("fi"), book.dice
    rows = range(dice.size(9, 1.1, 250))
    body = "\n".join(f"{dice.code('@@##'):<10}{dice.uniform(0, 99):>12.4f}" for _ in rows)
    code = f"{book.frame}.groupby('{a}')['{b}'].{dice.one('mean|median|sum|std')}()"
    book.cell(code, f"{a}\n{body}\nName: {b}, dtype: float64", book.frame, a, b)


def _look(book: Notebook, _: Settings) -> None:
    columns = sorted({book.column("fickd") for _ in range(book.dice.randrange(2, 7))})
    code = f"{book.frame}[{columns}].{book.dice.one('head|sample|tail')}(n)"
    book.cell(code, book.table(columns, book.dice.size(8, 1.2, 160)), book.frame, *columns)


def _derive(book: Notebook, settings: Settings) -> None:
    made, column = book.dice.say("derived"), book.column("fi")
    how = book.dice.one("rank(pct=True)|diff().fillna(0)|clip(upper={limit})")
    limits = [settings.limit] if "limit" in how else []
    how = how.replace("{limit}", settings.limit)
    book.cell(f"{book.frame}['{made}'] = {book.frame}['{column}'].{how}", "", column, *limits)
    book.kinds[made] = "f"
    book.recent.append(made)


def _plot(book: Notebook, _: Settings) -> None:
    column = book.column("fi")
    code = f"{book.frame}.plot.scatter(x='{column}', y='{book.target}'); plt.show()"
    book.cell(code, "<Figure size 640x480 with 1 Axes>", book.frame, column, book.target)


def _fail(book: Notebook, _: Settings) -> None:
    column, dice = book.column("fi"), book.dice
    wrong = column.replace("_", "", 1)
    lib = "/opt/env/lib/python3.11/site-packages/pandas/core"
    trace = "\n".join(
        f"File {lib}/{dice.choice(_TRACED)}.py:{dice.code('####')}, in {dice.one('get_loc|apply')}"
        for _ in range(dice.size(7, 0.7, 60))
    )
    failed = f"Traceback (most recent call last)\n{trace}\nKeyError: '{wrong}'"
    book.cell(f"{book.frame}['{wrong}'].hist(bins=40)", failed, book.frame)
    book.cell(f"{book.frame}['{column}'].hist(bins=40)", "<Axes: >", book.frame, column)


def _subset(book: Notebook, settings: Settings) -> None:
    new, column, dice = book.dice.say("frames"), book.column("fi"), book.dice
    kept = f"{book.frame}[{book.frame}['{book.target}'] <= {settings.limit}]"
    shape = f"({dice.code('#####')}, {len(book.kinds)})"
    code = f"{new} = {kept}.dropna(subset=['{column}'])\nprint({new}.shape)"
    book.cell(code, shape, book.frame, book.target, settings.limit, column)
    book.frames.append(new)
    book.frame = new if dice.chance(0.7) else book.frame


def _describe(book: Notebook, _: Settings) -> None:
    book.frame = book.dice.choice(book.frames)
    body = "\n".join(f"{column:<18}{book.dice.randrange(10**6):>10}" for column in book.kinds)
    book.cell(f"{book.frame}.{book.dice.one('describe().T|nunique()')}", body, book.frame)


def _fit(book: Notebook, _: Settings) -> None:
    dice = book.dice
    model, first, second = dice.say("models").split()
    setting = f"{first}={dice.randrange(2, 300)}, {second}={dice.randrange(2, 40)}"
    used = sorted({book.column("fi") for _ in range(4)})
    run = Run(model, setting, dice.code("#.#####"))
    folds = [f"fold {n}: rmse {dice.uniform(0, 9):.4f}" for n in range(dice.size(5, 0.5, 30))]
    code = f"m = {model}({setting})\ncv({book.frame}[{used}], {book.frame}['{book.target}'], m)"
    body = "\n".join([*folds, f"mean rmse {run.error}"])
    book.cell(code, body, book.frame, book.target, *used)
    book.runs.append(run)


def _reload(book: Notebook, settings: Settings) -> None:
    path, missing, site = settings.path, settings.missing, settings.site
    read = f"pd.read_csv('{path}', sep=';', encoding='latin-1').replace({missing}, float('nan'))"
    shape = f"({book.dice.code('#####')}, {len(book.kinds)})"
    code = f"raw = {read}\ndf = raw[raw['{settings.sites}'] != '{site}']"
    book.cell(code, shape, path, missing, settings.sites, site)
    book.frame = "df"


_STEPS = (
    (_group, 20),
    (_look, 14),
    (_derive, 14),
    (_plot, 10),
    (_fail, 8),
    (_subset, 10),
    (_describe, 6),
    (_fit, 12),
    (_reload, 4),
)
