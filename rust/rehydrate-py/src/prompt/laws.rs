//! The laws of a prompt: `Law` in `rehydrate.prompt.reports` describes each.
mod ends;

use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySet, PyString, PyTuple};
use rustc_hash::FxHashMap;

use super::{Prompt, Section, say};
use crate::errors::is_no_message;
use crate::exit::Running;
use crate::interned::interned;
use crate::layout::history::{History, Tokens, index_in};
use crate::reading::Conversation;

/// The breakpoint after all tools.
const TOOLS: &str = "tools";
/// The trust that the system role needs.
const FULL_TRUST: f64 = 1.0;
const PAIRING_RULES: [&str; 8] = [
    "unanswered_tool_call",
    "tool_result_without_call",
    "tool_message_without_call",
    "server_result_without_call",
    "duplicate_result",
    "results_not_first",
    "results_not_together",
    "reasoning_without_item",
];
/// Rendering repairs a history that breaks this rule: it puts a user message in front.
const REPAIRED_RULE: &str = "first_not_user";

/// A law that a part of the prompt breaks: the law's name, the part, and the problem.
type Broken<'py> = (&'static str, Bound<'py, PyAny>, Bound<'py, PyString>);
/// A rule of the provider that an entry breaks: its row, the rule's name, and the problem.
type Violation<'py> = (usize, Bound<'py, PyString>, Bound<'py, PyString>);

/// The laws that a prompt breaks, in the order of the laws. `violations` are those of the history.
#[pyfunction]
pub fn broken_laws<'py>(ir: &Bound<'py, PyAny>, violations: Vec<Violation<'py>>) -> PyResult<Vec<Broken<'py>>> {
    let _running = Running::begin();
    let history = History::of(ir.getattr(interned!(ir.py(), "history"))?)?;
    let mut found = Found { py: ir.py(), broken: Vec::new() };
    // Nearly all other laws need the provenance, for trust, and the entry indices, for names.
    provenance(ir, &mut found)?;
    entry_indices(&history, &mut found)?;
    if !found.broken.is_empty() {
        return Ok(found.broken);
    }
    let laws = Laws::of(ir, history)?;
    laws.counted(&mut found)?;
    laws.budget(&mut found)?;
    laws.present(&mut found)?;
    laws.provider_rules(&violations, true, "tool_pairs", &mut found)?;
    laws.provider_rules(&violations, false, "provider_rules", &mut found)?;
    laws.static_first(&mut found)?;
    laws.breakpoints(&mut found)?;
    laws.once(&mut found)?;
    laws.trust(&mut found)?;
    laws.roles(&mut found)?;
    Ok(found.broken)
}

struct Found<'py> {
    py: Python<'py>,
    broken: Vec<Broken<'py>>,
}

impl<'py> Found<'py> {
    /// Add a problem of a part.
    fn add(
        &mut self,
        law: &'static str,
        part: &Bound<'py, PyString>,
        message: &str,
        values: impl PyCallArgs<'py>,
    ) -> PyResult<()> {
        self.broken.push((law, part.clone().into_any(), say(self.py, message, values)?));
        Ok(())
    }

    fn add_of(
        &mut self,
        law: &'static str,
        part: &'static str,
        message: &str,
        values: impl PyCallArgs<'py>,
    ) -> PyResult<()> {
        self.add(law, &PyString::new(self.py, part), message, values)
    }
}

/// All content has a provenance.
fn provenance<'py>(ir: &Bound<'py, PyAny>, found: &mut Found<'py>) -> PyResult<()> {
    let py = ir.py();
    let lacks_source = |part: &Bound<'py, PyAny>| -> PyResult<bool> {
        let provenance = part.getattr(interned!(py, "provenance"))?;
        let source = provenance.getattr_opt(interned!(py, "source"))?;
        source.map_or(Ok(true), |source| Ok(!source.is_truthy()?))
    };
    for name in ["sections", "late_bound"] {
        for section in ir.getattr(name)?.try_iter()? {
            let section = section?;
            if lacks_source(&section)? {
                let id = section.getattr(interned!(py, "id"))?.cast_into()?;
                found.add("provenance", &id, "section {!r} does not say where it is from", (&id,))?;
            }
        }
    }
    for tool in ir.getattr(TOOLS)?.try_iter()? {
        let tool = tool?;
        if lacks_source(&tool)? {
            let name = tool.getattr(interned!(py, "name"))?;
            found.add_of("provenance", TOOLS, "tool {!r} does not say where it is from", (name,))?;
        }
    }
    Ok(())
}

fn entry_indices<'py>(history: &History<'py>, found: &mut Found<'py>) -> PyResult<()> {
    if !history.indices.is_empty() {
        one_each(history, "entry indices", history.indices.len(), found)?;
    }
    let Ok(indices) = history.indices.extract::<Vec<i128>>() else {
        return history.row_of_index().map(|_| ()); // which says what isn't an index
    };
    if indices.windows(2).any(|pair| pair[0] >= pair[1]) {
        found.add_of("counted", "history", "the history's entry indices do not ascend", ())?;
    }
    Ok(())
}

/// There is one number for each entry.
fn one_each<'py>(history: &History<'py>, what: &str, count: usize, found: &mut Found<'py>) -> PyResult<()> {
    let size = history.entries.len();
    if count == size {
        return Ok(());
    }
    found.add_of("counted", "history", "the history has {:,} entries and {:,} {}", (size, count, what))
}

/// A prompt, and values that several laws need of it.
struct Laws<'py> {
    ir: Bound<'py, PyAny>,
    prompt: Prompt<'py>,
    tokens: Tokens,
    history: History<'py>,
    conversation: Option<Bound<'py, Conversation>>,
    rows: FxHashMap<usize, usize>,
    /// By its id, the position of a section.
    positions: Bound<'py, PyDict>,
}

impl<'py> Laws<'py> {
    fn of(ir: &Bound<'py, PyAny>, history: History<'py>) -> PyResult<Self> {
        let prompt: Prompt<'py> = ir.extract()?;
        let positions = PyDict::new(ir.py());
        for (position, section) in prompt.sections.iter().enumerate() {
            positions.set_item(&section.id, position)?;
        }
        Ok(Self {
            ir: ir.clone(),
            prompt,
            tokens: ir.getattr(interned!(ir.py(), "tokens"))?.extract()?,
            conversation: history.conversation()?,
            rows: history.row_of_index()?,
            history,
            positions,
        })
    }

    fn counted(&self, found: &mut Found<'py>) -> PyResult<()> {
        for section in self.prompt.sections.iter().filter(|section| section.tokens.is_none()) {
            found.add("counted", &section.id, "section {!r} was not counted", (&section.id,))?;
        }
        for tool in self.prompt.tools.iter().filter(|tool| tool.tokens.is_none()) {
            found.add_of("counted", TOOLS, "tool {!r} was not counted", (&tool.name,))?;
        }
        one_each(&self.history, "tokens", self.history.tokens.len(), found)
    }

    fn budget(&self, found: &mut Found<'py>) -> PyResult<()> {
        let limit = |name: &str| -> PyResult<Tokens> { self.prompt.budget.getattr(name)?.extract() };
        let (tokens, soft, hard) = (self.tokens, limit("soft_tokens")?, limit("hard_tokens")?);
        if tokens > hard {
            return found.add_of("budget", "", "{:,} tokens are over the hard budget of {:,}", (tokens, hard));
        }
        if tokens > soft && self.prompt.meta.outcome.eq("fits")? {
            let needed = self.needed_tokens()?;
            if needed <= soft {
                let message = "{:,} tokens are over the soft budget of {:,} for no reason: only {:,} must stay";
                return found.add_of("budget", "", message, (tokens, soft, needed));
            }
        }
        Ok(())
    }

    /// The tokens that no pass may leave out: tools, whole sections, minimums, pins.
    fn needed_tokens(&self) -> PyResult<Tokens> {
        let of_tools: Tokens = self.prompt.tools.iter().filter_map(|tool| tool.tokens).sum();
        let of_section = |section: &Section<'_>| {
            let whole = section.tokens.unwrap_or_default();
            if section.must_stay_whole { whole } else { section.min_tokens.min(whole) }
        };
        let mut tokens = of_tools + self.prompt.sections.iter().map(of_section).sum::<Tokens>();
        let Some(conversation) = &self.conversation else { return Ok(tokens) };
        if self.history.tokens.len() == self.history.entries.len() {
            let units = conversation.get().units(self.ir.py())?;
            for pin in conversation.call_method0("pins")?.try_iter()? {
                let members: Vec<usize> = units.get_item(pin?.extract()?)?.getattr("members")?.extract()?;
                for row in members {
                    tokens += self.history.tokens_of(row..row + 1)?;
                }
            }
        }
        Ok(tokens)
    }

    fn present(&self, found: &mut Found<'py>) -> PyResult<()> {
        let meta = &self.prompt.meta;
        // A history may come in without a user turn: results for a response that the provider stores.
        let lost_entries = meta.dropped.iter().any(|each| index_in(&each.section).is_some());
        if lost_entries && self.conversation.is_some() && self.last_user_turn().is_none() {
            let message = "entries of the history were left out, the user's last turn too";
            found.add_of("present", "history", message, ())?;
        }
        for source in &meta.sources {
            let (name, status) = (&source.name, &source.status);
            let has_prompt = status != "off" && (source.sections.is_truthy()? || status != "ok");
            if name == "system" && has_prompt && !self.has_system() {
                let why = if source.detail.is_empty()? { "" } else { ": " };
                let message = "the system prompt is missing ({}{}{})";
                found.add_of("present", "system", message, (status, why, &source.detail))?;
            } else if name == "history" && (status == "late" || status == "failed") {
                let message = "the history is missing: its source {}";
                found.add_of("present", "history", message, (status,))?;
            }
        }
        for each in &meta.dropped {
            if each.priority.call_method0("lower")?.eq("critical")? {
                let message = "{!r} is critical and was left out: {}";
                found.add("present", &each.section, message, (&each.section, &each.reason))?;
            }
        }
        Ok(())
    }

    fn has_system(&self) -> bool {
        self.prompt.sections.iter().any(|section| section.provenance.source == "system")
            || self.conversation.as_ref().is_some_and(|conversation| conversation.get().has_system())
    }

    /// The row of the last user turn.
    fn last_user_turn(&self) -> Option<usize> {
        self.conversation.as_ref()?.get().last_user_index()
    }

    /// The rules that a history breaks: those of calls and their results, or all others.
    fn provider_rules(
        &self,
        violations: &[Violation<'py>],
        of_pairs: bool,
        law: &'static str,
        found: &mut Found<'py>,
    ) -> PyResult<()> {
        for (row, rule, message) in violations {
            let name = rule.to_str()?;
            if name == REPAIRED_RULE || PAIRING_RULES.contains(&name) != of_pairs {
                continue;
            }
            let is_there = *row < self.history.entries.len();
            let index = if is_there { self.history.entry_index(*row)? } else { 0 };
            let entry = self.history.id_of(index)?.cast_into()?;
            found.add(law, &entry, "{}: {}, {}", (&entry, message, rule))?;
        }
        Ok(())
    }

    fn static_first(&self, found: &mut Found<'py>) -> PyResult<()> {
        let mut dynamic: Option<&Bound<'py, PyString>> = None;
        for section in &self.prompt.sections {
            if !section.is_static {
                dynamic = dynamic.or(Some(&section.id));
            } else if let Some(before) = dynamic {
                let message = "section {!r} is static and comes after {!r}, which is not";
                found.add("static_first", &section.id, message, (&section.id, before))?;
            }
        }
        Ok(())
    }

    /// The row of the entry of an id.
    fn row_of(&self, id: &Bound<'py, PyString>) -> Option<usize> {
        self.rows.get(&index_in(id)?).copied()
    }

    fn position(&self, id: &Bound<'py, PyAny>) -> PyResult<Option<usize>> {
        self.positions.get_item(id)?.map(|position| position.extract()).transpose()
    }

    fn section(&self, id: &Bound<'py, PyAny>) -> PyResult<Option<&Section<'py>>> {
        Ok(self.position(id)?.map(|position| &self.prompt.sections[position]))
    }

    fn once(&self, found: &mut Found<'py>) -> PyResult<()> {
        let py = self.ir.py();
        self.results_present(found)?;
        let (seen, ids) = (PyDict::new(py), PySet::empty(py)?);
        for section in self.prompt.sections.iter().chain(&self.prompt.late_bound) {
            let id = &section.id;
            if ids.contains(id)? {
                found.add("once", id, "two sections have the id {!r}", (id,))?;
            }
            ids.add(id)?;
            let items = PyDict::new(py);
            for item in &section.provenance.items {
                items.set_item(item, ())?;
            }
            for item in items.keys() {
                // A model that saw a part may ask for another part, or for the whole.
                let part = if section.handle.is_none() { PyString::new(py, "") } else { section.content.str()? };
                let of_part = PyTuple::new(py, [item.as_any(), part.as_any()])?.into_any();
                let key = if section.late_bound.is_truthy()? { &of_part } else { &item };
                let other = seen.get_item(key)?.unwrap_or_else(|| id.clone().into_any());
                if other.ne(id)? {
                    let message = "{!r} is in section {!r} and in {!r}";
                    found.add("once", id, message, (&item, id, other))?;
                } else if item.cast::<PyString>().is_ok_and(|item| self.row_of(item).is_some()) {
                    found.add("once", id, "{!r} is in section {!r} and in the history", (&item, id))?;
                }
                for key in [&item, &of_part] {
                    if !seen.contains(key)? {
                        seen.set_item(key, id)?;
                    }
                }
            }
        }
        let names = PySet::empty(py)?;
        for tool in &self.prompt.tools {
            if names.contains(&tool.name)? {
                found.add_of("once", TOOLS, "two tools have the name {!r}", (&tool.name,))?;
            }
            names.add(&tool.name)?;
        }
        Ok(())
    }

    /// The history has the result that each late-bound section is in.
    fn results_present(&self, found: &mut Found<'py>) -> PyResult<()> {
        let Some(conversation) = self.conversation.as_ref().filter(|_| !self.prompt.late_bound.is_empty()) else {
            return Ok(());
        };
        let answered = PySet::empty(self.ir.py())?;
        for answer in conversation.call_method0("answers")?.try_iter()? {
            answered.add(answer?.get_item(0)?)?;
        }
        for section in &self.prompt.late_bound {
            if !answered.contains(&section.tool_call_id)? {
                let message = "section {!r} is in the result of call {!r}, which is not there";
                found.add("once", &section.id, message, (&section.id, &section.tool_call_id))?;
            }
        }
        Ok(())
    }

    /// A derived section has no more trust than the least trusted of its parents.
    fn trust(&self, found: &mut Found<'py>) -> PyResult<()> {
        for section in &self.prompt.sections {
            let mut least = section;
            let mut parents = 0;
            for id in &section.provenance.parents {
                let Some(parent) = self.section(id)? else { continue };
                if parents == 0 || parent.trust()? < least.trust()? {
                    least = parent;
                }
                parents += 1;
            }
            if section.trust()? > least.trust()? {
                let message = "section {!r} has trust {:g} and is derived from {!r}, which has {:g}";
                let (own, of_parent) = (&section.provenance.trust, &least.provenance.trust);
                found.add("trust", &section.id, message, (&section.id, own, &least.id, of_parent))?;
            }
        }
        Ok(())
    }

    /// Sections of messages that are not fully trusted: they can be read, and none is the system's.
    fn roles(&self, found: &mut Found<'py>) -> PyResult<()> {
        let py = self.ir.py();
        let parse = py.import("rehydrate.formats")?.getattr("parse")?;
        let mut of_system = Vec::new();
        for section in &self.prompt.sections {
            if section.content.is_instance_of::<PyString>() || section.trust()? >= FULL_TRUST {
                continue;
            }
            match parse.call1((&section.content, &self.history.format)) {
                Ok(read) if read.cast::<Conversation>()?.get().has_system() => of_system.push(section),
                Ok(_) => {}
                Err(error) if is_no_message(py, &error)? => {
                    let message = "section {!r} isn't a message: {}";
                    found.add("provider_rules", &section.id, message, (&section.id, error.value(py)))?;
                }
                Err(error) => return Err(error),
            }
        }
        for section in of_system {
            let message = "section {!r} speaks as the system and has trust {:g}";
            found.add("roles", &section.id, message, (&section.id, &section.provenance.trust))?;
        }
        Ok(())
    }
}
