//! The interface of all file formats of tables: a header, and rows a chunk at a time.

use std::io::{Read, Seek};
use std::ops::Range;

use crate::exit::Result;
use crate::io::chunk::Chunk;

/// Rows of one file format.
pub trait TableReader {
    /// The names of the columns.
    fn header(&self) -> &[String];

    /// At most `limit` rows of the columns `wanted` (the same in every call); `None` after the last.
    fn next(&mut self, wanted: &[usize], limit: usize) -> Result<Option<Chunk>>;

    /// The file's metadata under `key`; only Parquet files have some.
    fn note(&self, _key: &str) -> Option<String> {
        None
    }

    /// Rows of its row groups; none of formats whose rows are not known before they are read.
    fn groups(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Goes on with these row groups alone, and says how many rows are before them.
    fn only_groups(&mut self, _groups: Range<usize>) -> u64 {
        0
    }

    /// Whether the file leaves out zeros, so that it is a LIBSVM data file.
    fn is_sparse(&self) -> bool {
        false
    }

    /// The place of a column that the header does not show; only sparse files have such columns.
    fn hidden_place(&self, _column: &str) -> Option<usize> {
        None
    }

    /// Refuses so many columns of all rows at once, if that is too much memory.
    fn check_dense(&self, _columns: usize) -> Result<()> {
        Ok(())
    }
}

/// A source of bytes that can go back.
pub trait SeekableRead: Read + Seek {}

impl<T: Read + Seek> SeekableRead for T {}
