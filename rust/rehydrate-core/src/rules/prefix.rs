//! The rule for thinking whose prefix isn't the one that was sent before.
//!
//! The API compares `system`, `tools` (except deferred ones) and every block before the thinking, without cache marks.
//! Thinking isn't a part of the prefix, but each block depends on the one before: thinking may go from the beginning
//! and from the end, and a gap in it is refused.
//! <https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks>
use rustc_hash::FxHashMap;

use super::{Violation, broken};

/// The compared parts of a request. Texts are numbers, the same in both requests.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    pub blocks: Vec<Block>,
    pub thoughts: Vec<Thought>,
    /// The place after the last summary block that the API itself wrote. 0 without one.
    pub after_summary: usize,
}

/// A block that isn't thinking.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// The index of its message.
    pub index: usize,
    pub text: usize,
    pub is_assistants: bool,
}

/// A thinking block.
#[derive(Clone, Copy, Debug)]
pub struct Thought {
    /// The index of its message.
    pub index: usize,
    pub text: usize,
    /// The number of blocks before it that aren't thinking.
    pub offset: usize,
}

/// The thinking of `now` that is refused, for the reason `head` if the parts before the messages changed.
#[must_use]
pub fn violations(now: &Sent, before: &Sent, head: Option<&str>) -> Vec<Violation> {
    let first = head.map(|why| (0, why.to_owned())).or_else(|| first_refused(now, before));
    let Some((first, reason)) = first else { return Vec::new() };
    let refused = now.thoughts[first..].iter().filter(|thought| thought.offset >= now.after_summary);
    let broken = |thought: &Thought| {
        broken!(thought.index, "thinking_after_changed_prefix", "thinking after a change: ", &reason)
    };
    refused.map(broken).collect()
}

/// The number of the first refused thought, and why. All later ones are refused too.
fn first_refused(now: &Sent, before: &Sent) -> Option<(usize, String)> {
    // The prefix starts at the summary: the API puts it in place of everything before.
    let start = now.after_summary;
    let blocks = &now.blocks[start..];
    let mut gone = 0;
    if start > 0 {
        match replaced(blocks, &before.blocks, now.blocks[start - 1].text) {
            Some(end) => gone = end,
            None => return first_resent(now, before),
        }
    }
    let was = &before.blocks[gone..];
    let earlier: Vec<&Thought> = before.thoughts.iter().filter(|thought| thought.offset >= gone).collect();
    let mut places: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for (number, thought) in earlier.iter().enumerate() {
        places.entry(thought.text).or_default().push(number);
    }
    let change = blocks.iter().zip(was).position(|(one, other)| one.text != other.text);
    let first_answer = blocks.iter().skip(was.len()).position(|block| block.is_assistants).map(|at| at + was.len());
    let (mut seen, mut previous, mut is_previous_new) = (0, None, false);
    for (number, thought) in now.thoughts.iter().enumerate() {
        let Some(offset) = thought.offset.checked_sub(start) else { continue };
        if let Some(change) = change.filter(|change| offset > *change) {
            return Some((number, format!("message {} is not what was sent", blocks[change].index)));
        }
        let found = places.get(&thought.text).and_then(|at| at.get(at.partition_point(|place| *place < seen)).copied());
        let expected = match found {
            None => {
                if let Some(why) = answers_another(blocks, was, offset, first_answer) {
                    return Some((number, why.into()));
                }
                if is_previous_new { previous } else { earlier.last().map(|last| last.text) }
            }
            Some(at) if earlier[at].offset - gone != offset => {
                return Some((number, "what was right before it is missing, or something came between".into()));
            }
            Some(at) => {
                seen = at + 1;
                at.checked_sub(1).map(|before| earlier[before].text)
            }
        };
        if previous.is_some() && previous != expected {
            let why = "the thinking block that it followed is missing, or others came between";
            return Some((number, why.into()));
        }
        (previous, is_previous_new) = (Some(thought.text), found.is_none());
    }
    None
}

/// Why a new thought here does not follow from the sent prompt. None if it may. `first_answer` is the place of the
/// first block of the assistant after the sent prompt.
fn answers_another(
    blocks: &[Block],
    was: &[Block],
    offset: usize,
    first_answer: Option<usize>,
) -> Option<&'static str> {
    if let Some(sent) = was.get(offset) {
        let came_back = blocks.get(offset).is_some_and(|block| block.text == sent.text);
        return (!came_back).then_some("the end of what was sent is missing before it");
    }
    let is_later = first_answer.is_some_and(|first| first < offset);
    (offset > was.len() && blocks.len() > was.len() && !is_later).then_some("what is right before it wasn't sent")
}

/// The place in the sent prompt where the blocks after the summary begin. None if they are not in it.
fn replaced(kept: &[Block], was: &[Block], summary: usize) -> Option<usize> {
    if let Some(last) = was.iter().rposition(|block| block.text == summary) {
        return Some(last + 1);
    }
    if kept.is_empty() {
        return (!was.is_empty()).then_some(0);
    }
    // The first place from which both are the same as far as both go: Knuth, Morris and Pratt's search.
    let mut shorter = vec![0; kept.len()];
    let mut length = 0;
    for at in 1..kept.len() {
        while length > 0 && kept[at].text != kept[length].text {
            length = shorter[length - 1];
        }
        length += usize::from(kept[at].text == kept[length].text);
        shorter[at] = length;
    }
    length = 0;
    for (at, block) in was.iter().enumerate() {
        while length > 0 && block.text != kept[length].text {
            length = shorter[length - 1];
        }
        length += usize::from(block.text == kept[length].text);
        if length == kept.len() {
            return Some(at + 1 - length);
        }
    }
    (length > 0).then_some(was.len() - length)
}

fn first_resent(now: &Sent, before: &Sent) -> Option<(usize, String)> {
    let mut thoughts = now.thoughts.iter();
    let number = thoughts.position(|thought| {
        thought.offset >= now.after_summary && before.thoughts.iter().any(|known| known.text == thought.text)
    })?;
    Some((number, "what follows the summary is not what followed it when it was written".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(texts: &[usize]) -> Vec<Block> {
        texts.iter().map(|&text| Block { index: 0, text, is_assistants: false }).collect()
    }

    #[test]
    fn what_follows_a_summary_is_found_in_what_was_sent() {
        let cases: [(&[usize], &[usize], Option<usize>); 7] = [
            (&[3, 4], &[1, 2, 3, 4, 5], Some(2)),
            (&[3, 4], &[1, 2, 3], Some(2)),
            (&[1, 1, 2], &[1, 1, 1, 2], Some(1)),
            (&[5], &[1, 2, 3], None),
            (&[], &[1], Some(0)),
            (&[], &[], None),
            (&[5], &[9, 1, 9, 2], Some(3)),
        ];
        for (kept, was, place) in cases {
            assert_eq!(replaced(&blocks(kept), &blocks(was), 9), place, "{kept:?} {was:?}");
        }
    }
}
