//! A chunk of a table's rows, as stored in its file.

/// Largest number of rows read at a time; wide tables are read in smaller chunks.
pub const CHUNK: usize = 4096;

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
    /// The cells at the indices `indices`, in this order.
    pub fn select(&self, indices: &[usize]) -> Self {
        match self {
            Self::Numbers(numbers) => Self::Numbers(indices.iter().map(|&i| numbers[i]).collect()),
            Self::Texts(texts) => {
                let mut selected = Texts::default();
                indices.iter().for_each(|&i| selected.push(texts.get(i)));
                Self::Texts(selected)
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
                let mut unmasked = Texts::default();
                texts.iter().enumerate().for_each(|(i, t)| unmasked.push(if is_missing(i) { "" } else { t }));
                Self::Texts(unmasked)
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
    /// The rows with the indices `rows`, in this order.
    pub fn select(&self, rows: &[usize]) -> Self {
        let offset = |i: &usize| self.offsets.get(*i).copied().unwrap_or(*i as u64);
        Self {
            rows: rows.len(),
            first: self.first,
            lines: rows.iter().filter_map(|&i| self.lines.get(i).copied()).collect(),
            offsets: rows.iter().map(offset).collect(),
            columns: self.columns.iter().map(|column| column.select(rows)).collect(),
        }
    }

    /// The place of row `i` for messages, where rows count from 1.
    pub fn location(&self, i: usize) -> String {
        let row = self.first + self.offsets.get(i).copied().unwrap_or(i as u64) + 1;
        match self.lines.get(i) {
            Some(line) => format!("row {row} (line {line})"),
            None => format!("row {row}"),
        }
    }
}
