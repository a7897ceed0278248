//! A chunk of a table's rows, as stored in its file.

/// The texts of one column, in one allocation.
#[derive(Debug, Clone, Default)]
pub struct Texts {
    text: String,
    ends: Vec<usize>,
}

impl Texts {
    /// Adds a text.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len());
    }

    /// Text `i`.
    pub fn get(&self, i: usize) -> &str {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.text[start..self.ends[i]]
    }

    /// All texts.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len()).map(|i| self.get(i))
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }
}

/// One column as stored in the file.
#[derive(Debug, Clone)]
pub enum Raw {
    /// Numbers, from a format with types (Parquet).
    Numbers(Vec<f64>),
    /// Texts, some of which may be numbers.
    Texts(Texts),
}

impl Raw {
    /// The cells at the indices `places`, in this order.
    pub fn gathered(&self, places: &[usize]) -> Self {
        match self {
            Self::Numbers(numbers) => Self::Numbers(places.iter().map(|&i| numbers[i]).collect()),
            Self::Texts(texts) => {
                let mut gathered = Texts::default();
                places.iter().for_each(|&i| gathered.push(texts.get(i)));
                Self::Texts(gathered)
            }
        }
    }

    /// These cells, with those for which `is_missing` is true made missing.
    pub fn with_missing(self, is_missing: impl Fn(usize) -> bool) -> Self {
        match self {
            Self::Numbers(mut numbers) => {
                let missing = numbers.iter_mut().enumerate().filter(|(i, _)| is_missing(*i));
                missing.for_each(|(_, number)| *number = f64::NAN);
                Self::Numbers(numbers)
            }
            Self::Texts(texts) => {
                let mut left = Texts::default();
                texts.iter().enumerate().for_each(|(i, t)| left.push(if is_missing(i) { "" } else { t }));
                Self::Texts(left)
            }
        }
    }
}

/// Some rows of the wanted columns.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Number of rows.
    pub rows: usize,
    /// The index of the first row in the file, from 0.
    pub first: u64,
    /// The line of each row, for text files.
    pub lines: Vec<u64>,
    /// The number of rows in the file from the first row to each row, if rows between them were left out;
    /// otherwise empty.
    pub offsets: Vec<u64>,
    /// The wanted columns, in the requested order.
    pub columns: Vec<Raw>,
}

impl Chunk {
    /// The rows with the indices `kept`, in this order.
    pub fn select(&self, kept: &[usize]) -> Self {
        let offset = |i: &usize| self.offsets.get(*i).copied().unwrap_or(*i as u64);
        Self {
            rows: kept.len(),
            first: self.first,
            lines: kept.iter().filter_map(|&i| self.lines.get(i).copied()).collect(),
            offsets: kept.iter().map(offset).collect(),
            columns: self.columns.iter().map(|column| column.gathered(kept)).collect(),
        }
    }

    /// The place of row `i` for messages, where rows count from 1.
    pub fn place(&self, i: usize) -> String {
        let row = self.first + self.offsets.get(i).copied().unwrap_or(i as u64) + 1;
        match self.lines.get(i) {
            Some(line) => format!("row {row} (line {line})"),
            None => format!("row {row}"),
        }
    }
}
