//! Lists of names in messages.

/// Joins names for a sentence: "age, bmi and sex".
pub fn and<S: AsRef<str>>(names: &[S]) -> String {
    match names {
        [] => "nothing".into(),
        [one] => one.as_ref().into(),
        [most @ .., last_name] => {
            let first_names: Vec<&str> = most.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", first_names.join(", "), last_name.as_ref())
        }
    }
}

/// Names for a message, separated by commas: at most the first twenty, then their total number.
pub fn listed<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    const SHOWN: usize = 20;
    let names: Vec<S> = names.into_iter().collect();
    let mut text = names.iter().take(SHOWN).map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    if names.len() > SHOWN {
        text += &format!(", … ({} in all)", names.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{and, listed};

    #[test]
    fn names_are_joined_for_sentences() {
        assert_eq!(and(&["a"]), "a");
        assert_eq!(and(&["a", "b", "c"]), "a, b and c");
        assert_eq!(and::<&str>(&[]), "nothing");
    }

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(listed(["a", "b"]), "a, b");
        assert_eq!(listed::<&str>([]), "");
        let hundred: Vec<String> = (0..100).map(|i| i.to_string()).collect();
        assert!(listed(&hundred).ends_with("18, 19, … (100 in all)"));
    }
}
