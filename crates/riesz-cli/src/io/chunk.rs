//! Some rows of a table as its file holds them.

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

/// One column as the file holds it.
#[derive(Debug, Clone)]
pub enum Raw {
    /// Numbers with a type of their own (Parquet).
    Numbers(Vec<f64>),
    /// Text, which may spell numbers.
    Texts(Texts),
}

/// Some rows of the wanted columns.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Number of rows.
    pub rows: usize,
    /// The number of the first row in the file, from 0.
    pub first: u64,
    /// The line of each row, for text files.
    pub lines: Vec<u64>,
    /// The wanted columns, in the order in which they were wanted.
    pub columns: Vec<Raw>,
}

impl Chunk {
    /// Where row `i` is, for people: rows count from 1.
    pub fn place(&self, i: usize) -> String {
        let row = self.first + i as u64 + 1;
        match self.lines.get(i) {
            Some(line) => format!("row {row} (line {line})"),
            None => format!("row {row}"),
        }
    }
}
