"""Support with JSON records: orders, tickets and shipments as tool results; ids are used again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from benches.python.shapes.log import Dice, Log, words_of

SESSIONS = 8
WORDS = words_of("support")
ORDER_IDS = ("#W#######", "ORD-####-####", "@@@######", "10########")
Record = dict[str, Any]


@dataclass
class Case:
    """A customer's trouble with an item of an order, and its ticket."""

    customer: Record
    order: Record
    item: Record
    ticket: Record


class Desk:
    """A support agent's session: the records of some customers, and the work on them."""

    def __init__(self, number: int) -> None:
        self.dice = dice = Dice(f"support {number}", WORDS)
        self.log = Log(f"support {number}", ("openai_chat", "anthropic")[number % 3 == 2], dice)
        self.indent = dice.choice([None, None, 2])
        self.order_id = dice.choice(ORDER_IDS)
        self.customers = [_customer(self) for _ in range(1 if number % 2 else dice.randrange(3, 7))]
        self.known: set[str] = set()
        self.cases: list[Case] = []
        self.queue = dice.code("AQ-####")

    def call(self, tool: str, result: object, *uses: str, **given: Any) -> None:
        """Add a look-up or a change; the records come as JSON, and now and then an error first."""
        dice = self.dice
        if dice.chance(0.06):
            self.log.call((tool, given, json.dumps({"error": dice.say("error")})), *uses)
        text = json.dumps(result, indent=self.indent, ensure_ascii=False)
        said = dice.say("polite") if dice.chance(0.3) else ""
        self.log.call((tool, given, text), *uses, said=said)


def make(number: int) -> Log:
    """Make one session: case after case, some of them resumed much later."""
    desk = Desk(number)
    log, dice = desk.log, desk.dice
    log.user(dice.say("start", queue=desk.queue, most=dice.randrange(90, 400)))
    log.assistant("Understood.")
    for _ in range(dice.randrange(9, 24)):
        if desk.cases and dice.chance(0.45):
            case = dice.choice(desk.cases)
            about = dice.say("about", item=case.item["name"], **_short(case))
            who = "" if len(desk.customers) == 1 else f"{case.customer['name']} again: "
            dice.choice(_AGAIN)(desk, case, who, about)
            log.assistant(dice.say("done"))
        else:
            desk.cases.append(_case(desk, dice.choice(desk.customers)))
        for _ in range(dice.size(1, 0.7, 5) - 1):
            log.user(dice.say("chat"))
            log.assistant(dice.say("answer"))
    first, case = desk.cases[0], dice.choice(desk.cases)
    of = f"the {first.item['name']} of {first.customer['name']} that {first.ticket['about']}"
    log.ask(f"What is the ticket number of {of}?", first.ticket["ticket_id"])
    name = case.customer["name"]
    asked = dice.say("ask_order", name=name, item=case.item["name"], **_short(case))
    log.ask(asked, case.order["order_id"])
    street = case.customer["address"]["street"]
    log.ask(f"In which street does {name} live by now, with the number?", street)
    log.ask("Into which queue do the high refunds go?", desk.queue)
    return log


def _short(case: Case) -> dict[str, str]:
    return {"colour": case.item["colour"], "wrong": case.ticket["about"]}


def _customer(desk: Desk) -> Record:
    """Return a customer with orders; some have many."""
    dice = desk.dice
    methods = [
        {"id": dice.code(f"{dice.one('card|giro|voucher|sepa')}_#######")}
        | {"last": dice.code("####")}
        for _ in range(dice.randrange(2, 5))
    ]
    return {
        "id": dice.code("cus_********"),
        "name": f"{dice.say('first')} {dice.say('last')}",
        "email": dice.code("******") + "@mail.example",
        "address": _address(dice),
        "payment_methods": methods,
        "tier": dice.one("basic|plus|pro"),
        "orders": [_order(desk) for _ in range(dice.size(5, 0.6, 25) + 1)],
    }


def _address(dice: Dice) -> Record:
    street = f"{dice.say('street')} {dice.randrange(101, 999)}"
    return {"street": street, "town": dice.say("town"), "zip": dice.code("#####")}


def _order(desk: Desk) -> Record:
    dice = desk.dice
    items = [
        {
            "item_id": dice.code("#########"),
            "name": dice.say("item"),
            "colour": dice.say("colour"),
            "price": round(dice.uniform(9, 480), 2),
            "qty": dice.size(1, 0.4, 4),
        }
        for _ in range(dice.size(2, 0.7, 12))
    ]
    history = [
        {
            "at": f"2024-0{dice.randrange(1, 10)}-{dice.randrange(10, 29)}T{dice.code('1#:3#')}Z",
            "event": dice.one("created|paid|packed|shipped|scanned|delayed|delivered"),
            "note": dice.say("note"),
        }
        for _ in range(dice.size(5, 0.8, 60))
    ]
    return {
        "order_id": dice.code(desk.order_id),
        "status": dice.one("pending|processed|shipped|delivered"),
        "tracking": dice.code("1Z************"),
        "items": items,
        "history": history,
    }


def _case(desk: Desk, customer: Record) -> Case:
    """Add trouble with an item: find the order, look at it, open a ticket."""
    log, dice = desk.log, desk.dice
    order = dice.choice(customer["orders"])
    item, wrong = dice.choice(order["items"]), dice.say("wrong")
    reported = {"name": customer["name"], "email": customer["email"], "item": item["name"]}
    log.user(dice.say("case", colour=item["colour"], wrong=wrong, **reported))
    if customer["id"] not in desk.known:
        record = {key: value for key, value in customer.items() if key != "orders"}
        desk.call("find_customer", record, customer["email"], email=customer["email"])
        desk.known.add(customer["id"])
    listed = [
        {"order_id": each["order_id"], "status": each["status"], "items": len(each["items"])}
        for each in customer["orders"]
    ]
    desk.call("list_orders", {"orders": listed}, customer["id"], customer_id=customer["id"])
    others = [each for each in customer["orders"] if each is not order]
    tried = dice.sample(others, min(len(others), dice.size(1, 0.7, 4) - 1))
    for each in [*tried, order]:
        desk.call("get_order", each, each["order_id"], order_id=each["order_id"])
    if dice.chance(0.4):
        scans = [{"at": h["at"], "place": dice.say("town")} for h in order["history"]]
        tracking = order["tracking"]
        found = {"tracking": tracking, "scans": scans}
        desk.call("get_shipment", found, tracking, tracking=tracking)
    ids = {"order_id": order["order_id"], "item_id": item["item_id"]}
    number = dice.code("TCK-#####")
    ticket = {"ticket_id": number, **ids, "priority": dice.one("low|high"), "about": wrong}
    desk.call("open_ticket", ticket, *ids.values(), **ids, reason=wrong)
    log.assistant(dice.say("opened", ticket=number, item=item["name"]))
    return Case(customer, order, item, ticket)


def _refund(desk: Desk, case: Case, who: str, about: str) -> None:
    method = desk.dice.choice(case.customer["payment_methods"])
    kind = method["id"].partition("_")[0]
    desk.log.user(who + desk.dice.say("refund", about=about, kind=kind, last=method["last"]))
    given = {"order_id": case.order["order_id"], "item_id": case.item["item_id"]}
    given["method"] = method["id"]
    desk.call("refund", {"refund_id": desk.dice.code("rf_******")}, *given.values(), **given)


def _moved(desk: Desk, case: Case, who: str, _about: str) -> None:
    case.customer["address"] = new = _address(desk.dice)
    desk.log.user(who + desk.dice.say("moved", **new))
    customer = case.customer["id"]
    desk.call("update_address", {"ok": True, "id": customer}, customer, id=customer, **new)


def _news(desk: Desk, case: Case, who: str, about: str) -> None:
    desk.log.user(who + desk.dice.say("news", about=about))
    notes = [desk.dice.say("note") for _ in range(desk.dice.size(5, 0.9, 60))]
    ticket = case.ticket["ticket_id"]
    desk.call("get_ticket", {**case.ticket, "notes": notes}, ticket, ticket_id=ticket)


def _exchange(desk: Desk, case: Case, who: str, about: str) -> None:
    """Add an exchange: another item, in an order of its own that replaces the old one."""
    dice = desk.dice
    desk.log.user(who + dice.say("exchange", about=about))
    found = [
        {"item_id": dice.code("#########"), "colour": dice.say("colour"), "stock": dice.size(9)}
        for _ in range(dice.size(6, 0.8, 60))
    ]
    desk.call("search_products", {"results": found}, name=case.item["name"])
    new = {**case.item, **dice.choice(found)}
    made = {**_order(desk), "replaces": case.order["order_id"], "items": [new]}
    given = {"order_id": case.order["order_id"], "item_id": case.item["item_id"]}
    given |= {"new_item_id": new["item_id"], "ship_to": case.customer["address"]["street"]}
    desk.call("exchange_item", made, *given.values(), **given)
    case.order, case.item = made, new


def _escalate(desk: Desk, case: Case, who: str, about: str) -> None:
    desk.log.user(who + desk.dice.say("angry", about=about))
    given = {"ticket_id": case.ticket["ticket_id"], "queue": desk.queue}
    desk.call("escalate", {"ok": True}, *given.values(), **given)


_AGAIN = (_refund, _moved, _news, _exchange, _escalate)
