"""Web agents: pages as accessibility trees or HTML, clicks on element ids, forms to fill in."""

from __future__ import annotations

from typing import NamedTuple

from benches.python.shapes.log import Dice, Log, words_of

SESSIONS = 8
WORDS = words_of("web")
LABELS = dict(pair.split("/") for pair in WORDS["labels"].split("|"))
CODES = dict(pair.split("/") for pair in WORDS["codes"].split("|"))
TOLD_FIRST = 7
"""Number of the person's data in the first turn; the rest comes when a form needs it."""


class Offer(NamedTuple):
    """A product of a shop."""

    title: str
    sku: str
    price: str
    url: str


class Browser:
    """Pages on which no two elements share an id, and the log of the actions on them."""

    def __init__(self, number: int) -> None:
        self.dice = Dice(f"web {number}", WORDS)
        self.log = Log(f"web {number}", ("anthropic", "openai_chat")[number % 2], self.dice)
        self.is_tree = number % 4 < 2
        self.site = ""
        self.forms = self.dice.sample(WORDS["forms"].split("|"), WORDS["forms"].count("|") + 1)

    def element(self, role: str, text: str, indent: int = 4) -> tuple[str, str]:
        """Return an element's line on the page, and its id."""
        ref = self.dice.code("e#####" if self.is_tree else "ctl-*****")
        if self.is_tree:
            return f'{" " * indent}- {role} "{text}" [ref={ref}]', ref
        tag = {"link": "a", "button": "button", "text": "p"}.get(role, "label")
        inner = f'{text}<input name="{ref}-in">' if role == "textbox" else text
        style = self.dice.code("css-******")
        return f'{" " * indent}<{tag} id="{ref}" class="{style}">{inner}</{tag}>', ref

    def text(self, text: str) -> str:
        """Return a line of text on the page."""
        return self.element("text", text, 6)[0]

    def page(self, title: str, body: list[str]) -> str:
        """Return a page with its frame: menus above, a long foot below."""
        dice = self.dice
        head = [self.element("link", dice.say("nav"))[0] for _ in range(dice.size(8, 0.5, 40))]
        foot = [self.element("link", dice.say("foot"))[0] for _ in range(dice.size(7, 0.7, 60))]
        url = f"{self.site}/{dice.code('******')}"
        top = f"<title>{title}</title><!-- {url} -->"
        if self.is_tree:
            top = f"- Page URL: {url}\n- Page Title: {title}\n- Page Snapshot:"
        return "\n".join([top, *head, *body, *foot])

    def reviews(self, median: float) -> list[str]:
        """Return reviews on a page."""
        return [self.text(self.dice.say("praise")) for _ in range(self.dice.size(median, 1, 120))]

    def act(self, tool: str, page: str, *uses: str, **given: str) -> None:
        """Add a step in the browser, and the page after it."""
        self.log.call((f"browser_{tool}", given, page), *uses, said=self.dice.say("ok"))

    def click(self, ref: str, page: str) -> None:
        """Add a click, which fails now and then and is tried again."""
        if self.dice.chance(0.1):
            self.act("click", self.dice.say("miss", ref=ref), ref, ref=ref)
        self.act("click", page, ref, ref=ref)


def make(number: int) -> Log:
    """Make one session: errands in a browser for one person."""
    browser = Browser(number)
    log, dice = browser.log, browser.dice
    person, partner = _person(dice), _person(dice)
    reported = {"iban", "phone", *dice.sample(list(LABELS), TOLD_FIRST)}
    mine = "; ".join(f"{LABELS[key]} {person[key]}" for key in LABELS if key in reported)
    partners = ", ".join(partner[key] for key in ("name", "phone", "mail"))
    log.user(dice.say("start", mine=mine, partners=partners))
    bought: list[Offer] = []
    codes: list[tuple[str, str]] = []
    errands = dice.randrange(6, 15)
    for errand in range(errands):
        browser.site = dice.say("site").lower()
        if errand == errands // 2:
            person["phone"] = dice.code(CODES["phone"])
            log.user(dice.say("moved", phone=person["phone"]))
            log.assistant("I use the new number from here on.")
        if dice.chance(0.45) or not bought:
            bought.append(_shop(browser))
        elif dice.chance(0.3) or len(browser.forms) == 1:
            _look_again(browser, dice.choice(bought))
        else:
            codes.append(_form(browser, person, reported))
    codes.append(_form(browser, person, reported))
    first, (title, code) = bought[0], codes[0]
    log.ask(dice.say("ask_code", title=title), code)
    log.ask(dice.say("ask_price", title=first.title), first.price)
    taken = dice.choice(bought)
    log.ask(f"What is the article number of the {taken.title}?", taken.sku)
    log.ask(dice.say("ask_phone"), person["phone"])
    log.ask("Please tell me my IBAN as I gave it to you.", person["iban"])
    return log


def _person(dice: Dice) -> dict[str, str]:
    name = f"{dice.say('first')} {dice.say('last')}"
    month, day = dice.randrange(1, 13), dice.randrange(1, 29)
    return {
        **{key: dice.code(form) for key, form in CODES.items()},
        "name": name,
        "street": f"{dice.say('street')} {dice.randrange(11, 299)}",
        "born": f"19{dice.randrange(50, 99)}-{month:02}-{day:02}",
        "mail": f"{name.partition(' ')[0].lower()}.{dice.code('****')}@post.example",
    }


def _offer(dice: Dice, noun: str) -> Offer:
    title = f"{dice.say('maker')} {dice.say('adj')} {noun} {dice.code('@##')}"
    price = f"{dice.randrange(100, 900)}.{dice.code('##')}"
    return Offer(title, dice.code("##-####-@"), price, dice.code(f"/p/{noun[:4].strip()}-*****"))


def _shop(browser: Browser) -> Offer:
    """Search, look at some products, choose one, put it in the basket."""
    log, dice = browser.log, browser.dice
    noun = dice.say("noun")
    log.user(dice.say("shop", thing=noun, most=dice.randrange(60, 400)))
    line, box = browser.element("textbox", "Search")
    browser.act("navigate", browser.page("Shop", [line]), url=browser.site)
    offers = [_offer(dice, noun) for _ in range(dice.size(14, 0.7, 90))]
    refs, body = {}, []
    for offer in offers:
        line, refs[offer] = browser.element("link", offer.title)
        body += [line, browser.text(f"EUR {offer.price}  {dice.randrange(1, 900)} reviews")]
    browser.act("type", browser.page(f"Results for {noun}", body), box, ref=box, text=noun)
    looked = dice.sample(offers, min(len(offers), dice.randrange(1, 4)))
    basket = ""
    for offer in looked:
        line, basket = browser.element("button", "Add to basket")
        facts = (offer.title, f"Article {offer.sku}", f"EUR {offer.price}", f"Link {offer.url}")
        shown = [*map(browser.text, facts), line, *browser.reviews(6)]
        if offer is not looked[0]:
            browser.act("navigate_back", browser.page(f"Results for {noun}", body))
        browser.click(refs[offer], browser.page(offer.title, shown))
    taken = looked[-1]
    shown = [browser.text(f"{taken.title} x 1, EUR {taken.price}")]
    browser.click(basket, browser.page("Basket", shown))
    log.assistant(dice.say("taken", title=taken.title, price=taken.price))
    return taken


def _look_again(browser: Browser, offer: Offer) -> None:
    """Go back to an earlier product, by its link and article number."""
    log, dice = browser.log, browser.dice
    log.user(dice.say("again", title=offer.title))
    line, box = browser.element("textbox", "Article number")
    found = browser.page(offer.title, [line])
    browser.act("navigate", found, offer.url, url=browser.site + offer.url)
    left = browser.page("Stock", [browser.text(f"{dice.randrange(0, 9)} left")])
    browser.act("type", left, offer.sku, box, ref=box, text=offer.sku)
    log.assistant(dice.one("It is as before.|A few are left.|Nothing has changed."))


def _form(browser: Browser, person: dict[str, str], reported: set[str]) -> tuple[str, str]:
    """Fill in a form field by field, be refused now and then, and get a reference."""
    log, dice = browser.log, browser.dice
    title, _, fields = browser.forms.pop().partition("/")
    keys = fields.split(",")
    new = [key for key in keys if key not in reported]
    reported.update(new)
    also = "".join(f" {LABELS[key]}: {person[key]}." for key in new)
    log.user(dice.say("form", title=title, also=also))
    refs, body = {}, browser.reviews(4)
    for key in keys:
        line, refs[key] = browser.element("textbox", LABELS[key])
        body.append(line)
    line, send = browser.element("button", "Submit")
    body.append(line)
    browser.act("navigate", browser.page(title, body), url=browser.site)
    for key in keys:
        typed, value = f"Typed into {refs[key]}", person[key]
        browser.act("type", typed, refs[key], value, ref=refs[key], text=value)
    if dice.chance(0.35):
        key = dice.choice(keys)
        refused = browser.text(f"{LABELS[key]}: please check this field")
        browser.click(send, browser.page(title, [*body, refused]))
        typed, value = f"Typed into {refs[key]}", person[key]
        browser.act("type", typed, refs[key], value, ref=refs[key], text=value)
    code = dice.code("@@-####-****")
    browser.click(send, browser.page("Thank you", [browser.text(dice.say("thanks", code=code))]))
    log.assistant(dice.say("sent", title=title, code=code))
    return title, code
