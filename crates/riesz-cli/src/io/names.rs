//! Lists of columns on the command line, such as `age,bmi`; the name of a column may contain commas.

/// Splits each of `texts` at commas into names. The longest match with a name in `existing` is taken; unknown
/// names are returned unchanged, to be refused later.
pub fn listed_columns<S: AsRef<str>>(texts: &[String], existing: &[S]) -> Vec<String> {
    let exists = |name: &str| existing.iter().any(|k| k.as_ref() == name);
    let mut names = Vec::new();
    for text in texts {
        let pieces: Vec<&str> = text.split(',').collect();
        let mut from = 0;
        while from < pieces.len() {
            let name = |to: usize| pieces[from..to].join(",").trim().to_string();
            let to = (from + 1..=pieces.len()).rev().find(|&to| exists(&name(to))).unwrap_or(from + 1);
            names.push(name(to));
            from = to;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_commas() {
        let existing = ["price, USD", "price", "age", "a,b,c", "b"];
        let listed = |text: &str| listed_columns(&[text.to_string()], &existing);
        assert_eq!(listed("price, USD,age"), ["price, USD", "age"]);
        assert_eq!(listed("age,price,b"), ["age", "price", "b"]);
        assert_eq!(listed("a,b,c, b"), ["a,b,c", "b"]);
        assert_eq!(listed("price, EUR,a,c"), ["price", "EUR", "a", "c"]);
        assert_eq!(
            listed_columns(&["age".into(), "b,price, USD".into()], &existing),
            ["age", "b", "price, USD"]
        );
    }
}
