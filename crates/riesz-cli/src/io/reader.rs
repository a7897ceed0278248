//! The interface of all file formats of tables: a header, and rows in chunks.

use std::io::{Read, Seek};
use std::ops::Range;

use crate::exit::Result;
use crate::io::chunk::Chunk;

/// Reader of one file format.
pub trait TableReader {
    /// The names of the columns.
    fn header(&self) -> &[String];

    /// At most `limit` rows of the columns `selected` (the same in every call); `None` after the last.
    fn next(&mut self, selected: &[usize], limit: usize) -> Result<Option<Chunk>>;

    /// The file's metadata under `key`; only Parquet files have metadata.
    fn note(&self, _key: &str) -> Option<String> {
        None
    }

    /// The number of rows of each row group; empty for formats whose numbers of rows are unknown before
    /// reading.
    fn groups(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Restricts the rows that follow to these row groups. Returns the number of rows before them.
    fn restrict_to_groups(&mut self, _groups: Range<usize>) -> u64 {
        0
    }

    /// Whether the file leaves out zeros, as LIBSVM data files do.
    fn is_sparse(&self) -> bool {
        false
    }

    /// The index of a column that the header lacks; only sparse files have such columns.
    fn hidden_column_index(&self, _column: &str) -> Option<usize> {
        None
    }

    /// Returns an error if this number of columns with all rows would take too much memory.
    fn check_dense(&self, _columns: usize) -> Result<()> {
        Ok(())
    }
}

/// A seekable source of bytes.
pub trait SeekableRead: Read + Seek {}

impl<T: Read + Seek> SeekableRead for T {}
