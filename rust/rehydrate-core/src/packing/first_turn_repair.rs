//! The first survivor: if a provider wants a user turn first, the user turn before the first survivor is pulled in.
use crate::packing::pack::{Packing, Problem};

/// Make the first kept unit that isn't a system unit one that may lead.
///
/// The nearest unit before it that may lead is pulled in. If the budget is too small for it, the kept units of least
/// gain make room. If even that is not enough, the survivors before the first one that may lead are dropped instead.
/// `skip` marks units outside the order (system), `may_lead` those that may begin a conversation. A conversation that
/// did not begin with such a unit stays as it is. Returns the unit pulled in.
pub fn repair_first_turn(
    problem: &Problem<'_>,
    skip: &[bool],
    may_lead: &[bool],
    packing: &mut Packing,
) -> Option<usize> {
    let turns = |range: std::ops::Range<usize>| range.filter(|&unit| !skip[unit]);
    let units = packing.kept.len();
    if turns(0..units).next().is_none_or(|first| !may_lead[first]) {
        return None;
    }
    let mut pulled_in = None;
    while let Some(first) = turns(0..units).find(|&unit| packing.kept[unit]) {
        if may_lead[first] {
            return pulled_in.filter(|&leader| leader == first);
        }
        let leader = turns(0..first).rfind(|&unit| may_lead[unit]).expect("the first turn may lead");
        if make_room(problem, packing, leader) {
            packing.kept[leader] = true;
            packing.used_tokens += u64::from(problem.token_cost[leader]);
            pulled_in = Some(leader);
            continue; // what made room may have been the first survivor: look again
        }
        let next_leader = turns(first..units).find(|&unit| packing.kept[unit] && may_lead[unit]);
        let unpinned = |range| turns(range).filter(|&unit| packing.kept[unit] && !problem.pinned[unit]);
        if problem.pinned[first] {
            // Pinned units stay whatever they cost, and so does the leader they need. Nothing else is kept then.
            for unit in unpinned(0..units).collect::<Vec<_>>() {
                drop_unit(problem, packing, unit);
            }
            packing.kept[leader] = true;
            packing.used_tokens += u64::from(problem.token_cost[leader]);
            return Some(leader);
        }
        for unit in unpinned(first..next_leader.unwrap_or(units)).collect::<Vec<_>>() {
            drop_unit(problem, packing, unit);
        }
    }
    None
}

/// Drop kept, unpinned units of least gain until `leader` fits; nothing is dropped when that cannot succeed.
fn make_room(problem: &Problem<'_>, packing: &mut Packing, leader: usize) -> bool {
    let needed = packing.used_tokens + u64::from(problem.token_cost[leader]);
    let Some(mut excess) = needed.checked_sub(problem.budget_tokens).filter(|&excess| excess > 0) else {
        return true;
    };
    let mut candidates: Vec<usize> =
        (0..packing.kept.len()).filter(|&unit| packing.kept[unit] && !problem.pinned[unit]).collect();
    candidates.sort_by(|&a, &b| packing.gain[a].total_cmp(&packing.gain[b]).then(a.cmp(&b)));
    let mut evicted = Vec::new();
    for unit in candidates {
        if excess == 0 {
            break;
        }
        excess = excess.saturating_sub(u64::from(problem.token_cost[unit]));
        evicted.push(unit);
    }
    if excess > 0 {
        return false;
    }
    evicted.into_iter().for_each(|unit| drop_unit(problem, packing, unit));
    true
}

fn drop_unit(problem: &Problem<'_>, packing: &mut Packing, unit: usize) {
    packing.kept[unit] = false;
    packing.used_tokens -= u64::from(problem.token_cost[unit]);
}
