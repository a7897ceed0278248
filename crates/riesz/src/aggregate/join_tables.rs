//! Joins the two tables of downscaling, the table of rows and the table of bags, by the names of the bags,
//! and finds the targets that have rows.

use std::collections::HashMap;

use crate::error::{Error, Result, sized};

/// Maximum number of names in an error.
const MAX_NAMES: usize = 5;

/// The matched rows, bags and targets; see [`join`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BagJoin {
    /// Indices of the rows that are used, in their order.
    pub rows: Vec<usize>,
    /// The bag of each row, as an index into [`with_rows`](Self::with_rows).
    pub bag: Vec<usize>,
    /// The bags that have rows, as positions in the table of bags, in its order.
    pub with_rows: Vec<usize>,
    /// The bags that have targets, as positions in the table of bags, in its order.
    pub targets: Vec<usize>,
    /// The bag of each target, as an index into [`with_rows`](Self::with_rows); `None` if it has no rows.
    pub matched: Vec<Option<usize>>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Joins rows with a table of bags, of which some have a target; `rows` holds the name of each row's bag.
/// With `mediators`, coarse covariates of all bags, rows without targets and targets without rows are used
/// too. Otherwise rows without targets are left out, with a note. Targets without rows are then an error,
/// unless `drop_unmatched` leaves them out, with a note.
///
/// ```
/// use riesz::aggregate::join;
///
/// let joined = join(&["b", "a", "b"], &["a", "b", "c"], &[true, false, true], true, false)?;
/// assert_eq!((joined.bag, joined.with_rows), (vec![1, 0, 1], vec![0, 1]));
/// assert_eq!((joined.targets, joined.matched), (vec![0, 2], vec![Some(0), None]));
/// # Ok::<(), riesz::Error>(())
/// ```
///
/// # Errors
/// [`Error::Format`] for a name that occurs twice in the table of bags, for rows of a bag that is not in it,
/// for targets without rows if there are no mediators, and if no target is left; [`Error::Shape`] unless
/// `has_target` has one entry per bag; [`Error::TooFew`] without rows.
pub fn join<R: AsRef<str>, B: AsRef<str>>(
    rows: &[R],
    bags: &[B],
    has_target: &[bool],
    mediators: bool,
    drop_unmatched: bool,
) -> Result<BagJoin> {
    sized("the list of targets", "numbers", bags.len(), has_target.len(), "one for each bag")?;
    if rows.is_empty() {
        return Err(Error::too_few("the table of rows", 1, "row is"));
    }
    let row_bags = bag_of_each_row(rows, bags)?;
    let mut has_rows = vec![false; bags.len()];
    row_bags.iter().for_each(|&b| has_rows[b] = true);
    let name = |b: &usize| bags[*b].as_ref();
    let mut notes = Vec::new();
    let (with_rows, without_target): (Vec<usize>, Vec<usize>) =
        (0..bags.len()).filter(|&b| has_rows[b]).partition(|&b| mediators || has_target[b]);
    if !without_target.is_empty() {
        notes.push(format!(
            "the rows of {} bags without a target are left out, because there are no mediators: {}",
            without_target.len(),
            quoted_names(without_target.iter().map(name))
        ));
    }
    let (targets, without_rows): (Vec<usize>, Vec<usize>) =
        (0..bags.len()).filter(|&b| has_target[b]).partition(|&b| mediators || has_rows[b]);
    if !without_rows.is_empty() {
        let names = quoted_names(without_rows.iter().map(name));
        if !drop_unmatched {
            return join_error(format!(
                "{} targets belong to bags without rows, {names}: give mediators, coarse covariates that \
                 all bags have, or leave these targets out (drop_unmatched)",
                without_rows.len()
            ));
        }
        notes.push(format!("{} targets of bags without rows are left out: {names}", without_rows.len()));
    }
    if targets.is_empty() {
        return Err(Error::format(
            "no bag has a usable target: give bags with both rows and a target, or mediators, coarse \
             covariates that relate bags with rows to bags with targets",
        ));
    }
    let mut index_with_rows = vec![None; bags.len()];
    with_rows.iter().enumerate().for_each(|(index, &b)| index_with_rows[b] = Some(index));
    let (used_rows, bag) = (0..rows.len()).filter_map(|i| Some((i, index_with_rows[row_bags[i]]?))).unzip();
    let matched = targets.iter().map(|&b| index_with_rows[b]).collect();
    Ok(BagJoin { rows: used_rows, bag, with_rows, targets, matched, notes })
}

/// The position of each row's bag in the table of bags.
fn bag_of_each_row<R: AsRef<str>, B: AsRef<str>>(rows: &[R], bags: &[B]) -> Result<Vec<usize>> {
    let mut positions: HashMap<&str, usize> = HashMap::new();
    let mut duplicates: Vec<&str> = Vec::new();
    for (b, name) in bags.iter().map(AsRef::as_ref).enumerate() {
        if positions.insert(name, b).is_some() {
            duplicates.push(name);
        }
    }
    if !duplicates.is_empty() {
        return join_error(format!(
            "the table of bags has {} twice: give one line for each bag",
            quoted_names(duplicates.into_iter())
        ));
    }
    let mut unknown_bags: Vec<&str> =
        rows.iter().map(AsRef::as_ref).filter(|name| !positions.contains_key(name)).collect();
    let unknown_rows = unknown_bags.len();
    unknown_bags.dedup();
    unknown_bags.sort_unstable();
    unknown_bags.dedup();
    if !unknown_bags.is_empty() {
        return join_error(format!(
            "{unknown_rows} rows belong to bags that are not in the table of bags, {}: add these bags, or \
             leave these rows out",
            quoted_names(unknown_bags.into_iter())
        ));
    }
    Ok(rows.iter().map(|name| positions[name.as_ref()]).collect())
}

fn join_error<T>(problem: String) -> Result<T> {
    Err(Error::format(problem))
}

/// The names at the start of a list, in quotes.
fn quoted_names<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> String {
    let count = names.len();
    let shown: Vec<String> = names.take(MAX_NAMES).map(|name| format!("'{name}'")).collect();
    let ellipsis = if count > MAX_NAMES { format!(", … ({count} in all)") } else { String::new() };
    shown.join(", ") + &ellipsis
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join_error(rows: &[&str], bags: &[&str], has: &[bool], mediators: bool) -> String {
        join(rows, bags, has, mediators, false).unwrap_err().to_string()
    }

    #[test]
    fn without_mediators_only_matched_bags_remain() {
        let joined =
            join(&["a", "c", "b", "a"], &["c", "b", "a"], &[false, true, true], false, false).unwrap();
        assert_eq!((joined.rows, joined.bag), (vec![0, 2, 3], vec![1, 0, 1]));
        assert_eq!((joined.with_rows, joined.targets), (vec![1, 2], vec![1, 2]));
        assert_eq!(joined.matched, [Some(0), Some(1)]);
        assert!(joined.notes[0].contains("'c'"), "{:?}", joined.notes);
        let dropped = join(&["a"], &["a", "b"], &[true, true], false, true).unwrap();
        assert_eq!((dropped.targets, dropped.matched), (vec![0], vec![Some(0)]));
        assert!(dropped.notes[0].contains("1 targets of bags without rows"), "{:?}", dropped.notes);
    }

    #[test]
    fn unmatched_bags_are_named() {
        assert!(join_error(&["a"], &["a", "b", "a"], &[true; 3], false).contains("'a' twice"));
        let many_bags = ["q", "p", "o", "n", "m", "l", "q"];
        let text = join_error(&many_bags, &["a"], &[true], false);
        assert!(text.contains("7 rows") && text.contains("'l', 'm', 'n', 'o', 'p', … (6 in all)"), "{text}");
        assert!(
            join_error(&["a"], &["a", "b"], &[true, true], false)
                .contains("without rows, 'b': give mediators")
        );
        assert!(
            join_error(&["a"], &["a", "b"], &[false, false], true).contains("no bag has a usable target")
        );
        assert!(join_error(&["a"], &["a"], &[true, false], true).contains("the list of targets"));
        assert!(join_error(&[], &["a"], &[true], true).contains("table of rows"));
    }
}
