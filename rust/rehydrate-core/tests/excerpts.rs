//! Division into blocks: laws for any text, and one golden case for each kind of text.
use proptest::prelude::*;
use rehydrate_core::excerpts::{Division, MAX_BLOCKS, MIN_BYTES, Measure, divide};

fn texts<'a>(text: &'a str, division: &Division) -> Vec<&'a str> {
    division.blocks.iter().map(|block| &text[block.bytes.clone()]).collect()
}

fn check(text: &str, division: &Division) {
    let blocks = &division.blocks;
    assert_eq!(texts(text, division).concat(), text);
    assert!((1..=MAX_BLOCKS).contains(&blocks.len()), "{} blocks", blocks.len());
    let mut chars = 0;
    for block in blocks.iter() {
        assert_eq!(block.chars.start, chars);
        chars += text[block.bytes.clone()].chars().count();
        assert_eq!(block.chars.end, chars);
        assert!(block.count > 0 && block.first <= block.last, "{block:?}");
    }
    if division.measure == Measure::Lines {
        assert!(texts(text, division)[..blocks.len() - 1].iter().all(|block| block.ends_with('\n')));
        assert_eq!(blocks.iter().map(|block| block.count).sum::<usize>(), text.lines().count());
    }
}

/// Pieces from which texts of every kind come together, well formed or not.
fn fragments() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        "[a-z ]{0,60}\n",
        "[\\PC\n]{0,40}",
        Just("\n\n# Heading\n".to_string()),
        Just("@@ -1,2 +3,4 @@\n".to_string()),
        Just("diff --git a/x b/x\n--- a/x\n+++ b/x\n".to_string()),
        Just("2026-02-17 12:00:00 INFO started\n".to_string()),
        Just("src/app.py:12:def main():\n".to_string()),
        Just("   118\tdef main():\n".to_string()),
        Just("{\"key\": [1, 2, {\"a\": \"b\\\"\"}], ".to_string()),
        Just("]".to_string()),
        Just("}".to_string()),
        Just("\"".to_string()),
        Just("漢字".repeat(900)),
        Just("no_white_space".repeat(400)),
    ];
    prop::collection::vec(fragment, 0..120).prop_map(|fragments| fragments.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocks_laid_end_to_end_are_the_text(text in fragments(), wrap in 0..3) {
        let text = match wrap { 0 => text, 1 => format!("[{text}]"), _ => format!("{{{text}}}") };
        if let Some(division) = divide(&text) {
            check(&text, &division);
        }
    }

    #[test]
    fn valid_json_is_divided_between_its_elements(lengths in prop::collection::vec(1..300_usize, 8..200), indent in any::<bool>()) {
        let elements: Vec<String> = lengths.iter().map(|&n| format!("{{\"id\": \"{}\"}}", "x,]\\\"".repeat(n / 4))).collect();
        let text = format!("[{}]", elements.join(if indent { ",\n  " } else { ", " }));
        if let Some(division) = divide(&text) {
            check(&text, &division);
            prop_assert_eq!(division.measure, Measure::Elements);
            prop_assert_eq!(division.blocks.iter().map(|block| block.count).sum::<usize>(), elements.len());
            for block in &texts(&text, &division)[1..] {
                prop_assert!(block.trim_start().starts_with("{\"id\""), "{}", block);
            }
        }
    }
}

#[test]
fn a_short_text_is_never_divided() {
    assert_eq!(divide(""), None);
    assert_eq!(divide(&"x".repeat(MIN_BYTES - 1)), None);
    assert!(divide(&"line\n".repeat(MIN_BYTES / 5)).is_some_and(|division| division.blocks.len() > 1));
}

#[test]
fn a_huge_text_has_no_more_blocks_than_any() {
    for text in ["a line of some words\n".repeat(200_000), "[1,2,3],".repeat(300_000), "\u{5d0}".repeat(1_000_000)] {
        check(&text, &divide(&text).expect("long"));
    }
}

#[test]
fn deep_nesting_is_no_recursion() {
    for text in ["[".repeat(1_000_000), format!("{}{}", "[".repeat(500_000), "]".repeat(500_000))] {
        if let Some(division) = divide(&text) {
            check(&text, &division);
        }
    }
}

/// Whether each block after the first begins with one of `starts`.
fn begin_with(text: &str, starts: &[&str]) {
    let division = divide(text).expect("long enough");
    check(text, &division);
    for block in &texts(text, &division)[1..] {
        assert!(
            starts.iter().any(|start| block.starts_with(start)),
            "a block begins {:?}",
            &block[..block.len().min(40)]
        );
    }
}

#[test]
fn a_diff_is_divided_before_files_and_hunks() {
    let hunk = |n: usize| {
        format!(
            "@@ -{n},3 +{n},4 @@ fn name\n context line of it\n-old line {n} goes\n+new line {n} comes\n+another line {n}\n"
        )
    };
    let file = |f: usize| {
        let hunks: String = (1..5).map(hunk).collect();
        format!("diff --git a/f{f} b/f{f}\nindex 1..2 100644\n--- a/f{f}\n+++ b/f{f}\n{hunks}")
    };
    begin_with(&(0..6).map(file).collect::<String>(), &["diff --git", "@@ "]);
}

#[test]
fn a_log_is_divided_before_records_and_keeps_stack_traces_together() {
    let record = |n: usize| {
        format!(
            "2026-02-17T12:00:{n:02} ERROR request {n} failed\nTraceback (most recent call last):\n  File \"app.py\", line {n}\n    run()\nValueError: {n}\n"
        )
    };
    begin_with(&(10..60).map(record).collect::<String>(), &["2026-"]);
}

#[test]
fn search_results_are_divided_between_files() {
    let file =
        |f: usize| (1..6).map(|n| format!("src/module_{f}.py:{n}:    value = compute({n})\n")).collect::<String>();
    let text: String = (0..20).map(file).collect();
    let division = divide(&text).expect("100 lines");
    check(&text, &division);
    let first_of_file =
        texts(&text, &division)[1..].iter().filter(|block| block.contains(":1:") && block[..20].contains(':')).count();
    assert!(
        first_of_file * 2 > division.blocks.len(),
        "{first_of_file} of {} blocks begin with a file",
        division.blocks.len()
    );
}

#[test]
fn prose_is_divided_between_paragraphs_and_headings_keep_what_follows() {
    let section = |n: usize| {
        format!(
            "## Section {n}\n\nA paragraph of section {n} that says something at some length, over two lines\nof text, and then it ends.\n\nAnother paragraph of the same section, a shorter one.\n\n"
        )
    };
    let text: String = (0..30).map(section).collect();
    begin_with(&text, &["## Section", "A paragraph", "Another paragraph"]);
    let division = divide(&text).unwrap();
    assert!(
        texts(&text, &division).iter().all(|block| !block.trim_end().ends_with(char::is_numeric)),
        "a heading ends a block"
    );
}

#[test]
fn code_is_divided_before_definitions() {
    let function = |n: usize| {
        format!(
            "def function_{n}(argument):\n    value = argument + {n}\n    if value:\n        return value * {n}\n    return None\n\n\n"
        )
    };
    begin_with(&(0..30).map(function).collect::<String>(), &["def function_"]);
}

#[test]
fn numbered_files_are_counted_by_their_own_numbers() {
    for separator in ['\t', '→'] {
        let text: String = (0..200).map(|n| format!("{:>6}{separator}    line of code {n}\n", n + 118)).collect();
        let division = divide(&text).expect("200 lines");
        check(&text, &division);
        assert_eq!(division.blocks[0].first, 118);
        assert_eq!(division.blocks.last().unwrap().last, 317);
        assert!(division.blocks.windows(2).all(|pair| pair[0].last + 1 == pair[1].first));
    }
}

#[test]
fn an_array_inside_an_object_is_divided_into_its_elements() {
    let rows: Vec<String> = (0..300).map(|n| format!("{{\"flight\":\"HAT{n:03}\",\"price\":{n}}}")).collect();
    let text = format!("{{\"status\":\"ok\",\"flights\":[{}]}}", rows.join(","));
    let division = divide(&text).expect("long");
    check(&text, &division);
    assert_eq!((division.measure, division.blocks.last().unwrap().last), (Measure::Elements, 300));
    // What follows the elements is in no element.
    let text = format!("{{\"flights\":[{}],\"total\":300}}", rows.join(","));
    let division = divide(&text).expect("long");
    check(&text, &division);
    assert_eq!((division.measure, division.blocks.last().unwrap().last), (Measure::Characters, text.len()));
}

#[test]
fn an_object_of_many_members_is_divided_into_them() {
    let members: Vec<String> = (0..200).map(|n| format!("  \"key_{n}\": \"a value of some length, {n}\"")).collect();
    let text = format!("{{\n{}\n}}\n", members.join(",\n"));
    let division = divide(&text).expect("long");
    check(&text, &division);
    assert_eq!((division.measure, division.blocks.last().unwrap().last), (Measure::Members, 200));
    assert!(texts(&text, &division)[1..].iter().all(|block| block.starts_with("  \"key_")));
}

#[test]
fn lines_of_json_are_lines() {
    let text: String = (0..100).map(|n| format!("{{\"id\": {n}, \"text\": \"one of many\"}}\n")).collect();
    assert_eq!(divide(&text).expect("100 lines").measure, Measure::Lines);
}

#[test]
fn a_line_that_is_too_long_is_cut_after_words() {
    let text = "A sentence of several words. ".repeat(400);
    let division = divide(&text).expect("long");
    check(&text, &division);
    assert_eq!(division.measure, Measure::Characters);
    assert!(texts(&text, &division).iter().all(|block| block.starts_with("A sentence")), "cut within a sentence");
}
