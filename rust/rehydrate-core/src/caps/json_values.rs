//! JSON, cut so that the excerpt has the same schema: first rows of arrays, all keys of objects.
//!
//! Values are cut in their source text, not parsed and written again: numbers, escapes, the order of keys and white
//! space stay as the tool wrote them. A cut string ends in a mark, inside its quotes. The number of missing rows, and
//! the keys by which a caller can filter, come after the value.
use super::code_points::{first, grouped, is, is_in, is_space, lossy, mark, push};
use super::cut::fair_share;
use super::json::{Member, NotJson, Result, first_value, members, scalar_text, skip, unit};
use super::lines::{Excerpt, filters_room};
use crate::interrupt::checkpoint;

/// No value is cut to less: the mark alone would be longer.
pub(super) const MIN_VALUE: usize = 64;
const MAX_DEPTH: usize = 12;
/// The maximum share of the room for one row or member: a second one shows what they have in common.
const ROW_SHARE: f64 = 0.6;
/// Paths whose missing rows are counted.
const MAX_PATHS: usize = 8;
const MAX_KEY: usize = 40;

/// As much of the value as fits, and below it how much is missing.
pub(super) fn cap_json(text: &[u32], limit: usize, rows: usize) -> Result<Excerpt> {
    let start = first_value(text);
    let mut room = (limit - filters_room(limit)) as i64;
    let mut excerpt = Excerpt::default();
    for _ in 0..4 {
        let mut cutter = Cutter::new(text, rows, limit);
        let mut body = Vec::new();
        cutter.cut(&mut body, start, None, room.max(MIN_VALUE as i64), "", 0)?;
        if skip(text, cutter.end) != text.len() {
            return Err(NotJson); // there is more after the value
        }
        let summary = cutter.summary();
        excerpt.text.clone_from(&body);
        excerpt.kept = body;
        if !summary.is_empty() {
            push(&mut excerpt.text, "\n\n");
            push(&mut excerpt.text, &summary);
        }
        let length = excerpt.text.len() as i64;
        if length <= limit as i64 {
            break;
        }
        room -= length - limit as i64 + room.div_euclid(10);
    }
    Ok(excerpt)
}

/// One value, cut; if it is not JSON, its first `limit` characters.
pub(super) fn cut_value(source: &[u32], limit: usize, rows: usize) -> Vec<u32> {
    let mut out = Vec::new();
    match Cutter::new(source, rows, limit).cut(&mut out, skip(source, 0), None, limit as i64, "", 0) {
        Ok(()) => out,
        Err(NotJson) => first(source, limit).to_vec(),
    }
}

/// The number of a list's rows, or an object's keys, that are left out.
struct Missing {
    path: String,
    noun: &'static str,
    count: usize,
    total: usize,
}

/// Cuts one value, and counts the rows and keys that it leaves out.
struct Cutter<'a> {
    text: &'a [u32],
    rows: usize,
    missing: Vec<Missing>,
    columns: Columns,
    missing_rows: usize,
    /// The end of the outermost value.
    end: usize,
}

impl<'a> Cutter<'a> {
    fn new(text: &'a [u32], rows: usize, limit: usize) -> Self {
        let columns = Columns::new(filters_room(limit));
        Self { text, rows, missing: Vec::new(), columns, missing_rows: 0, end: 0 }
    }

    /// The counts of missing rows, by path.
    fn summary(&self) -> String {
        if self.missing_rows > 0 {
            return self.columns.summary(self.missing_rows);
        }
        let mut by_path: Vec<Missing> = Vec::new();
        let mut places = rustc_hash::FxHashMap::default();
        for &Missing { ref path, noun, count, total } in &self.missing {
            let place = *places.entry(path.as_str()).or_insert(by_path.len());
            if place == by_path.len() {
                by_path.push(Missing { path: path.clone(), noun, count: 0, total: 0 });
            }
            by_path[place].count += count;
            by_path[place].total += total;
        }
        let mut lines: Vec<String> = Vec::new();
        for Missing { path, noun, count, total } in by_path.iter().take(MAX_PATHS) {
            let noun = if noun.is_empty() { "more".to_owned() } else { format!("more {noun}") };
            let [count, shown, total] = [*count, total - count, *total].map(|number| grouped(number as i64));
            let line = format!("{path}: {count} {noun} ({shown} of {total})");
            lines.push(line.trim_start_matches([':', ' ']).to_owned());
        }
        if by_path.len() > MAX_PATHS {
            lines.push(format!("and in {} other places", grouped((by_path.len() - MAX_PATHS) as i64)));
        }
        lines.join("\n")
    }

    /// Append the value from `start` to `end` in at most `limit` characters; numbers and literals are never cut.
    fn cut(
        &mut self,
        out: &mut Vec<u32>,
        start: usize,
        end: Option<usize>,
        limit: i64,
        path: &str,
        depth: usize,
    ) -> Result<()> {
        let text = self.text;
        if let Some(end) = end.filter(|&end| (end - start) as i64 <= limit) {
            out.extend_from_slice(&text[start..end]);
            return Ok(());
        }
        let first = *text.get(start).ok_or(NotJson)?;
        if is_in(first, "[{") {
            return self.cut_container(out, start, limit, path, depth);
        }
        let end = end.unwrap_or(text.len());
        if is(first, b'"') {
            cut_string(out, text, start, end, limit);
        } else {
            out.extend_from_slice(&text[start..end]);
        }
        Ok(())
    }

    /// Append an array or an object, cut.
    fn cut_container(&mut self, out: &mut Vec<u32>, start: usize, limit: i64, path: &str, depth: usize) -> Result<()> {
        let text = self.text;
        let is_array = is(text[start], b'[');
        let (opening, closing) = if is_array { ('[', ']') } else { ('{', '}') };
        let mut kept: Vec<Member> = Vec::new();
        let (mut count, mut last) = (0, start + 1);
        for member in members(text, start) {
            let member = member?;
            (count, last) = (count + 1, member.end);
            if depth == 0 && is_array {
                self.columns.add(&text[member.start..member.end]);
            }
            if !is_array || count <= self.rows {
                kept.push(member);
            }
        }
        let close = skip(text, last);
        if !text.get(close).is_some_and(|&point| is_in(point, "]}")) {
            return Err(NotJson);
        }
        if depth == 0 {
            self.end = close + 1;
        }
        let length = close + 1 - start;
        if length as i64 <= limit {
            out.extend_from_slice(&text[start..=close]);
            return Ok(());
        }
        if depth > MAX_DEPTH {
            self.missing.push(Missing { path: path.to_owned(), noun: "", count, total: count });
            out.extend([opening, closing].map(u32::from));
            return Ok(());
        }
        if is_array {
            let shown = self.prefix(out, start, &kept, limit, None, path, depth)?;
            if depth == 0 {
                self.missing_rows = count - shown;
            } else if shown < count {
                self.missing.push(Missing { path: path.to_owned(), noun: "", count: count - shown, total: count });
            }
        } else {
            let sizes: Vec<i64> = kept.iter().map(|member| (member.end - member.start) as i64).collect();
            let fixed = length as i64 - sizes.iter().sum::<i64>();
            let share = fair_share(&sizes, limit - fixed);
            if share >= MIN_VALUE as i64 {
                self.prefix(out, start, &kept, limit * 2, Some(share), path, depth)?;
            } else {
                let shown = self.prefix(out, start, &kept, limit, None, path, depth)?;
                if shown < kept.len() {
                    let missing = kept.len() - shown;
                    let path = path.to_owned();
                    self.missing.push(Missing { path, noun: "keys", count: missing, total: kept.len() });
                }
            }
        }
        if close - last <= MIN_VALUE {
            out.extend_from_slice(&text[last..close]);
        }
        out.push(u32::from(closing));
        Ok(())
    }

    /// Append the first members that fit; their number.
    ///
    /// Each is cut to `member_limit`, or without one to its share of the room that is left. A row that would lose keys
    /// is left out, unless it is the first: the shown rows show the schema.
    #[expect(clippy::too_many_arguments, reason = "where it is, and how much room there is")]
    fn prefix(
        &mut self,
        out: &mut Vec<u32>,
        start: usize,
        kept: &[Member],
        limit: i64,
        member_limit: Option<i64>,
        path: &str,
        depth: usize,
    ) -> Result<usize> {
        let text = self.text;
        out.push(text[start]);
        let (mut remaining, mut at) = (limit - 2, start + 1);
        for (number, member) in kept.iter().enumerate() {
            checkpoint();
            let name = match one_line(first(&member.key, MAX_KEY)) {
                name if name.is_empty() => "[]".to_owned(),
                name => name,
            };
            let dot = if path.is_empty() || member.key.is_empty() { "" } else { "." };
            let member_path = format!("{path}{dot}{name}");
            let (length_before, missing_before) = (out.len(), self.missing.len());
            out.extend_from_slice(&text[at..member.start]);
            let room = member_limit.unwrap_or_else(|| row_room(limit, remaining - (member.start - at) as i64));
            self.cut(out, member.start, Some(member.end), room, &member_path, depth + 1)?;
            let loses_keys = self.missing[missing_before..].iter().any(|missing| !missing.noun.is_empty());
            let length = (out.len() - length_before) as i64;
            if length > remaining || (number > 0 && loses_keys && member.key.is_empty()) {
                self.missing.truncate(missing_before);
                out.truncate(length_before);
                return Ok(number);
            }
            remaining -= length;
            at = member.end;
        }
        Ok(kept.len())
    }
}

/// The maximum characters of the next row.
fn row_room(room: i64, remaining: i64) -> i64 {
    remaining.min((room as f64 * ROW_SHARE).round_ties_even() as i64).max(MIN_VALUE as i64)
}

/// Append the first characters of a string and a mark; no escape is cut in half.
fn cut_string(out: &mut Vec<u32>, text: &[u32], start: usize, end: usize, limit: i64) {
    const MARK: i64 = 48;
    let stop = (start + 1).saturating_add((limit - MARK).max(0) as usize).min(text.len());
    let mut cut = start + 1;
    while cut < stop {
        cut += match text[cut] {
            0x22 => break,
            0x5C if text.get(cut + 1).is_some_and(|&letter| is(letter, b'u')) => match unit(&text[cut..stop]) {
                Some(_) => 6,
                None => break,
            },
            0x5C if cut + 1 < stop => 2,
            0x5C => break,
            _ => 1,
        };
    }
    let is_half =
        |at: usize, halves: std::ops::Range<u32>| unit(&text[at..]).is_some_and(|unit| halves.contains(&unit));
    if cut >= start + 7 && is_half(cut - 6, 0xD800..0xDC00) && is_half(cut, 0xDC00..0xE000) {
        cut -= 6;
    }
    if (0xD800..0xDC00).contains(&text[cut - 1]) {
        cut -= 1;
    }
    let [start, end, cut_at] = [start, end, cut].map(|at| at as i64);
    out.extend_from_slice(&text[start as usize..cut]);
    push(out, &mark("character", end - 1 - cut_at, cut_at - start, end - 2 - start));
    out.push(u32::from('"'));
}

/// The number of occurrences of each value, in the order in which the values came.
type Counts = Vec<(Vec<u32>, usize)>;

/// The keys of rows, and the values of keys with few of them: the filters of a query.
pub(super) struct Columns {
    room: usize,
    rows: usize,
    is_complete: bool,
    /// By key; None for a key with too many values.
    values: Vec<(Vec<u32>, Option<Counts>)>,
}

/// Rows in which keys and their values are counted.
const MAX_ROWS: usize = 2_000;

impl Columns {
    pub fn new(room: usize) -> Self {
        Self { room, rows: 0, is_complete: true, values: Vec::new() }
    }

    /// Add a line of JSON lines; one that is not an object is skipped.
    pub fn add_line(&mut self, line: &[u32]) {
        /// Longer rows are not read for the filters.
        const MAX_ROW: usize = 65_536;
        if line.len() > MAX_ROW || self.rows == MAX_ROWS {
            self.is_complete = false;
            return;
        }
        self.add(&line[skip(line, 0)..]);
    }

    /// Add a row; one that is not an object is skipped.
    pub fn add(&mut self, row: &[u32]) {
        const MAX_COLUMNS: usize = 40;
        const MAX_VALUES: usize = 8;
        const MAX_VALUE: usize = 32;
        if !row.first().is_some_and(|&opening| is(opening, b'{')) {
            return;
        }
        if self.rows == MAX_ROWS {
            self.is_complete = false;
            return;
        }
        let Ok(members) = members(row, 0).collect::<Result<Vec<_>>>() else { return };
        self.rows += 1;
        // If a key comes twice, the last value counts.
        let last: rustc_hash::FxHashMap<_, _> =
            members.iter().map(|member| (&member.key, member.start..member.end)).collect();
        let mut seen = rustc_hash::FxHashSet::default();
        for Member { key, .. } in members.iter().filter(|member| seen.insert(&member.key)) {
            let column = match self.values.iter().position(|(known, _)| known == key) {
                Some(column) => column,
                None if self.values.len() >= MAX_COLUMNS => continue,
                None => {
                    self.values.push((key.clone(), Some(Vec::new())));
                    self.values.len() - 1
                }
            };
            let counts = &mut self.values[column].1;
            let Some(known) = counts else { continue };
            let Some(value) = scalar_text(&row[last[key].clone()]).filter(|value| value.len() <= MAX_VALUE) else {
                *counts = None;
                continue;
            };
            match known.iter_mut().find(|(known, _)| *known == value) {
                Some((_, count)) => *count += 1,
                None => known.push((value, 1)),
            }
            if known.len() > MAX_VALUES {
                *counts = None;
            }
        }
    }

    /// The number of missing rows, and the possible filters.
    pub fn summary(&self, missing: usize) -> String {
        let mut out = format!("{} more", grouped(missing as i64));
        if self.values.is_empty() {
            return out;
        }
        out.push_str(". filters: ");
        let mut length = out.len();
        for (number, (key, counts)) in self.values.iter().enumerate() {
            let name = self.filter(key, counts.as_deref().unwrap_or_default());
            let characters = name.chars().count();
            if (length + characters) as i64 > self.room as i64 - 40 {
                out.push_str(&format!(" and {} more", self.values.len() - number));
                return out;
            }
            if number > 0 {
                out.push_str(", ");
                length += 2;
            }
            out.push_str(&name);
            length += characters;
        }
        out
    }

    /// A key with its values, the most frequent first.
    fn filter(&self, key: &[u32], counts: &[(Vec<u32>, usize)]) -> String {
        let mut shown = first(key, MAX_KEY).to_vec();
        if key.len() > MAX_KEY {
            push(&mut shown, "...");
        }
        let name = one_line(&shown);
        if counts.is_empty() || self.rows <= counts.len() {
            return name;
        }
        let mut counts: Vec<_> = counts.iter().collect();
        counts.sort_by_key(|&&(_, count)| std::cmp::Reverse(count));
        let values = counts.iter().map(|(value, count)| match self.is_complete {
            true => format!("{} {}", one_line(value), grouped(*count as i64)),
            false => one_line(value),
        });
        format!("{name} ({})", values.collect::<Vec<_>>().join(", "))
    }
}

/// The text on one line, encodable as UTF-8: an escape may be half a surrogate pair.
fn one_line(text: &[u32]) -> String {
    let words = text.split(|&point| is_space(point)).filter(|word| !word.is_empty());
    words.map(lossy).collect::<Vec<_>>().join(" ")
}
