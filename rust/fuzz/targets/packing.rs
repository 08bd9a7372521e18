//! Packing: the budget is passed by pins only, the same problem packs alike, and the value is what it claims to be.
#![no_main]
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use rehydrate_core::packing::repair_first_turn;
use rehydrate_core::packing::{FeatureLists, Packing, Problem, pack_coverage, pack_greedy};

const FEATURES: u32 = 24;

#[derive(Debug, Default)]
struct Case {
    token_cost: Vec<u32>,
    score: Vec<f64>,
    pinned: Vec<bool>,
    may_lead: Vec<bool>,
    features: FeatureLists,
    mentioned: Vec<Vec<u32>>,
    feature_weight: Vec<f64>,
    budget_tokens: u64,
}

/// A worth of any size that is not negative and finite; zeros and equals are frequent.
fn worth(input: &mut Unstructured<'_>) -> Result<f64> {
    Ok(match input.int_in_range(0..=5_u8)? {
        0 => 0.0,
        1 => f64::from(input.arbitrary::<u8>()?),
        2 => f64::MIN_POSITIVE * f64::from(input.arbitrary::<u8>()?),
        3 => 1e300 * f64::from(input.arbitrary::<u8>()?) / 255.0,
        _ => f64::from(input.arbitrary::<u32>()?) / f64::from(u32::MAX),
    })
}

fn case(input: &mut Unstructured<'_>) -> Result<Case> {
    let mut case = Case::default();
    for _ in 0..FEATURES {
        case.feature_weight.push(worth(input)?);
    }
    for _ in 0..input.int_in_range(0..=40_usize)? {
        let huge = input.ratio(1, 20)?;
        case.token_cost.push(if huge { input.arbitrary()? } else { input.int_in_range(0..=300)? });
        case.score.push(worth(input)?);
        case.pinned.push(input.ratio(1, 8)?);
        case.may_lead.push(input.arbitrary()?);
        let bits: u32 = input.arbitrary()?;
        let mentioned: Vec<u32> = (0..FEATURES).filter(|feature| bits >> feature & 1 == 1).collect();
        case.features.push(mentioned.iter().copied());
        case.mentioned.push(mentioned);
    }
    case.budget_tokens = input.int_in_range(0..=3_000)?;
    Ok(case)
}

fn tokens(case: &Case, kept: &[bool]) -> u64 {
    kept.iter().zip(&case.token_cost).filter(|(kept, _)| **kept).map(|(_, &tokens)| u64::from(tokens)).sum()
}

fn value(case: &Case, kept: &[bool], with_features: bool) -> f64 {
    let units = || (0..kept.len()).filter(|&unit| kept[unit]);
    let mut covered = [false; FEATURES as usize];
    units().flat_map(|unit| &case.mentioned[unit]).for_each(|&feature| covered[feature as usize] = with_features);
    let weights = case.feature_weight.iter().zip(covered).filter(|(_, covered)| *covered).map(|(weight, _)| weight);
    units().map(|unit| case.score[unit]).sum::<f64>() + weights.sum::<f64>()
}

fn check(case: &Case, packing: &Packing, with_features: bool) {
    let pinned = tokens(case, &case.pinned);
    assert_eq!(packing.used_tokens, tokens(case, &packing.kept));
    assert!(packing.used_tokens <= case.budget_tokens.max(pinned), "over budget without need");
    assert!(packing.kept.iter().zip(&case.pinned).all(|(&kept, &pinned)| kept || !pinned), "a pin was dropped");
    // Worths are rounded to a 2^30th of the largest, once a unit and once a feature.
    let largest = case.score.iter().chain(&case.feature_weight).copied().fold(0.0, f64::max);
    let claimed = (packing.value - value(case, &packing.kept, with_features)).abs();
    let rounding = largest * (case.score.len() * (FEATURES as usize + 1)) as f64 / f64::from(1 << 29);
    assert!(claimed <= rounding + f64::MIN_POSITIVE * 1e6, "{claimed} off where {rounding} is rounding");
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(case) = case(&mut Unstructured::new(bytes)) else { return };
    let no_features = FeatureLists::none(case.score.len());
    for with_features in [false, true] {
        let problem = Problem {
            token_cost: &case.token_cost,
            score: &case.score,
            pinned: &case.pinned,
            features: if with_features { &case.features } else { &no_features },
            feature_weight: if with_features { &case.feature_weight } else { &[] },
            budget_tokens: case.budget_tokens,
        };
        let pack = |problem: &Problem<'_>| if with_features { pack_coverage(problem) } else { pack_greedy(problem) };
        let packing = pack(&problem);
        check(&case, &packing, with_features);
        assert_eq!(packing, pack(&problem), "packed twice, packed differently");
        let mut led = packing.clone();
        let system = vec![false; case.score.len()];
        repair_first_turn(&problem, &system, &case.may_lead, &mut led);
        assert_eq!(led.used_tokens, tokens(&case, &led.kept));
        assert!(led.kept.iter().zip(&case.pinned).all(|(&kept, &pinned)| kept || !pinned));
    }
});
