//! Parquet files, read one row group at a time.

use std::fs::File;
use std::ops::Range;

use arrow_array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};

use crate::exit::{Failure, Result};
use crate::io::arrow::{ColumnPath, column, column_paths, guarded};
use crate::io::chunk::Chunk;
use crate::io::reader::TableReader;

/// Storage of a file's bytes.
pub enum Storage {
    /// A file on disk.
    File(File),
    /// Bytes in memory, from a pipe or a compressed file.
    Memory(Bytes),
}

/// An open Parquet file.
pub struct ParquetRows {
    name: String,
    storage: Storage,
    metadata: ArrowReaderMetadata,
    header: Vec<String>,
    paths: Vec<ColumnPath>,
    /// Row groups that are not read yet.
    groups: Range<usize>,
    batches: Option<ParquetRecordBatchReader>,
    /// Rows of a batch that were read but not returned yet, and the indices of the wanted columns in batches.
    batch: Option<RecordBatch>,
    root_positions: Vec<usize>,
}

impl ParquetRows {
    /// Reads the footer.
    pub fn open(storage: Storage, name: &str) -> Result<Self> {
        let load = || match &storage {
            Storage::File(file) => ArrowReaderMetadata::load(file, Default::default()),
            Storage::Memory(bytes) => ArrowReaderMetadata::load(bytes, Default::default()),
        };
        let metadata = guarded(|| load().map_err(|e| e.to_string())).map_err(|e| damaged(name, e))?;
        let paths = column_paths(metadata.schema());
        let header = paths.iter().map(|path| path.name.clone()).collect();
        let groups = 0..metadata.metadata().num_row_groups();
        let name = name.to_string();
        let (batches, batch, root_positions) = (None, None, Vec::new());
        Ok(Self { name, storage, metadata, header, paths, groups, batches, batch, root_positions })
    }

    /// A reader of the wanted columns in the remaining row groups.
    fn batches(
        &self,
        selected: &[usize],
        limit: usize,
    ) -> std::result::Result<ParquetRecordBatchReader, String> {
        let metadata = self.metadata.clone();
        match &self.storage {
            Storage::File(file) => {
                let file = file.try_clone().map_err(|e| e.to_string())?;
                self.build(
                    ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata),
                    selected,
                    limit,
                )
            }
            Storage::Memory(bytes) => {
                let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes.clone(), metadata);
                self.build(builder, selected, limit)
            }
        }
    }

    fn build<T: parquet::file::reader::ChunkReader + 'static>(
        &self,
        builder: ParquetRecordBatchReaderBuilder<T>,
        selected: &[usize],
        limit: usize,
    ) -> std::result::Result<ParquetRecordBatchReader, String> {
        let roots = selected.iter().map(|&j| self.paths[j].root);
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), roots);
        let groups = self.groups.clone().collect();
        let built = builder.with_projection(mask).with_row_groups(groups).with_batch_size(limit).build();
        built.map_err(|e| e.to_string())
    }

    /// The next rows of the file, at most `limit`.
    fn next_batch(
        &mut self,
        selected: &[usize],
        limit: usize,
    ) -> std::result::Result<Option<RecordBatch>, String> {
        if self.batches.is_none() {
            self.batches = Some(self.batches(selected, limit)?);
            // The reader returns each column once, in the order of the file.
            let mut roots: Vec<usize> = selected.iter().map(|&j| self.paths[j].root).collect();
            roots.sort_unstable();
            roots.dedup();
            let root_position = |&j: &usize| roots.binary_search(&self.paths[j].root).unwrap_or(0);
            self.root_positions = selected.iter().map(root_position).collect();
        }
        let batch = match self.batch.take() {
            Some(batch) => batch,
            None => match self.batches.as_mut().and_then(Iterator::next) {
                Some(batch) => batch.map_err(|e| e.to_string())?,
                None => return Ok(None),
            },
        };
        let rows = batch.num_rows().min(limit);
        if rows < batch.num_rows() {
            self.batch = Some(batch.slice(rows, batch.num_rows() - rows));
        }
        Ok(Some(batch.slice(0, rows)))
    }
}

impl TableReader for ParquetRows {
    fn header(&self) -> &[String] {
        &self.header
    }

    fn next(&mut self, selected: &[usize], limit: usize) -> Result<Option<Chunk>> {
        let read = guarded(|| self.next_batch(selected, limit)).map_err(|e| damaged(&self.name, e))?;
        let Some(batch) = read else { return Ok(None) };
        let columns = selected.iter().zip(&self.root_positions).map(|(&j, &root)| {
            guarded(|| column(&batch, root, &self.paths[j])).map_err(|e| damaged(&self.name, e))
        });
        let columns = columns.collect::<Result<_>>()?;
        Ok(Some(Chunk { rows: batch.num_rows(), first: 0, lines: Vec::new(), offsets: Vec::new(), columns }))
    }

    fn note(&self, key: &str) -> Option<String> {
        let notes = self.metadata.metadata().file_metadata().key_value_metadata()?;
        notes.iter().find(|note| note.key == key)?.value.clone()
    }

    fn groups(&self) -> Vec<u64> {
        let groups = self.metadata.metadata().row_groups();
        groups.iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(0)).collect()
    }

    fn restrict_to_groups(&mut self, groups: Range<usize>) -> u64 {
        self.groups = groups.start..groups.end.min(self.metadata.metadata().num_row_groups());
        (self.batches, self.batch) = (None, None);
        self.groups()[..self.groups.start].iter().sum()
    }
}

fn damaged(name: &str, error: impl std::fmt::Display) -> Failure {
    let text = error.to_string();
    let reason = ["Parquet error: ", "Arrow: ", "Parquet argument error: "]
        .iter()
        .fold(text.as_str(), |stripped, prefix| stripped.strip_prefix(prefix).unwrap_or(stripped));
    if reason.starts_with("column '") {
        return Failure::input(format!("{name}: {reason}"));
    }
    if let Some(codec) = reason.strip_prefix("Disabled feature at compile time: ") {
        return Failure::input(format!(
            "{name} is compressed with {codec}, which is not supported: write it with zstd, snappy or gzip"
        ));
    }
    Failure::input(format!("cannot read {name} as a Parquet file: {reason}"))
}
