//! Texts of reports: cells in columns, and which names of a list moved.

/// Rows of cells as lines, each column padded to one width.
///
/// `names` are those of the columns, with ">" before the ones that are aligned to the right.
#[must_use]
pub fn aligned(names: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let heads: Vec<String> = names.iter().map(|name| name.trim_start_matches('>').to_owned()).collect();
    let lines: Vec<&Vec<String>> = std::iter::once(&heads).chain(rows).collect();
    let width = |column: usize| lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    let line = |cells: &&Vec<String>| {
        let padded = cells.iter().zip(names).zip(&widths).map(|((cell, name), &width)| {
            if name.starts_with('>') { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(line).collect()
}

/// The numbers, all different, that moved: all but a longest ascending subsequence.
///
/// Patience sorting: for each length, only the subsequence with the lowest last number is extended.
#[must_use]
pub fn moved(numbers: &[usize]) -> Vec<bool> {
    let mut ends: Vec<usize> = Vec::new(); // by length less one, the place of the subsequence's last number
    let mut before: Vec<Option<usize>> = Vec::with_capacity(numbers.len());
    for (place, &number) in numbers.iter().enumerate() {
        let length = ends.partition_point(|&end| numbers[end] < number);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = place,
            None => ends.push(place),
        }
    }
    let mut moved = vec![true; numbers.len()];
    let mut place = ends.last().copied();
    while let Some(stayed) = place {
        moved[stayed] = false;
        place = before[stayed];
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_one_width() {
        let rows = [vec!["grep".into(), "1,200".into(), String::new()], vec!["é".into(), "7".into(), "kept".into()]];
        assert_eq!(aligned(&["name", ">tokens", ""], &rows), ["name  tokens", "grep   1,200", "é          7  kept"]);
        assert_eq!(aligned(&[">#", "id"], &[]), ["#  id"]);
    }

    #[test]
    fn the_fewest_moved() {
        assert_eq!(moved(&[0, 1, 2]), [false; 3]);
        assert_eq!(moved(&[2, 0, 1]), [true, false, false]);
        assert_eq!(moved(&[1, 0]), [true, false]);
        assert!(moved(&[]).is_empty());
    }
}
