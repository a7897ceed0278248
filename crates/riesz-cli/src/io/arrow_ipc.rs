//! Arrow IPC files (Feather) and streams.

use std::io::Read;

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, Schema};

use crate::exit::{Failure, Result};
use crate::io::arrow::{ColumnPath, column, column_paths, guarded};
use crate::io::chunk::Chunk;
use crate::io::reader::{SeekableRead, TableReader};

type Batches = Box<dyn Iterator<Item = std::result::Result<RecordBatch, ArrowError>>>;

/// An open Arrow IPC file or stream.
pub struct ArrowRows {
    name: String,
    header: Vec<String>,
    paths: Vec<ColumnPath>,
    batches: Batches,
    /// Rows of a batch that were read but not returned yet.
    batch: Option<RecordBatch>,
}

impl ArrowRows {
    /// Opens a file, whose footer lists its batches.
    pub fn open_file(source: Box<dyn SeekableRead>, name: &str) -> Result<Self> {
        let opened = guarded(|| FileReader::try_new(source, None).map_err(|e| e.to_string()));
        let reader = opened.map_err(|e| damaged(name, &e))?;
        Ok(Self::new(name, &reader.schema(), Box::new(reader)))
    }

    /// Opens a stream, whose batches follow each other.
    pub fn open_stream(source: Box<dyn Read>, name: &str) -> Result<Self> {
        let opened = guarded(|| StreamReader::try_new(source, None).map_err(|e| e.to_string()));
        let reader = opened.map_err(|e| damaged(name, &e))?;
        Ok(Self::new(name, &reader.schema(), Box::new(reader)))
    }

    fn new(name: &str, schema: &Schema, batches: Batches) -> Self {
        let paths = column_paths(schema);
        let header = paths.iter().map(|path| path.name.clone()).collect();
        Self { name: name.to_string(), header, paths, batches, batch: None }
    }
}

impl TableReader for ArrowRows {
    fn header(&self) -> &[String] {
        &self.header
    }

    fn next(&mut self, selected: &[usize], limit: usize) -> Result<Option<Chunk>> {
        let batches = &mut self.batches;
        let batch = match self.batch.take() {
            Some(batch) => batch,
            None => {
                let read = guarded(|| {
                    batches
                        .find(|b| !matches!(b, Ok(b) if b.num_rows() == 0))
                        .transpose()
                        .map_err(|e| e.to_string())
                });
                match read.map_err(|e| damaged(&self.name, &e))? {
                    Some(batch) => batch,
                    None => return Ok(None),
                }
            }
        };
        let rows = batch.num_rows().min(limit);
        if rows < batch.num_rows() {
            self.batch = Some(batch.slice(rows, batch.num_rows() - rows));
        }
        let batch = batch.slice(0, rows);
        let columns = selected.iter().map(|&j| {
            let path = &self.paths[j];
            guarded(|| column(&batch, path.root, path)).map_err(|e| damaged(&self.name, &e))
        });
        let columns = columns.collect::<Result<_>>()?;
        Ok(Some(Chunk { rows, first: 0, lines: Vec::new(), offsets: Vec::new(), columns }))
    }
}

fn damaged(name: &str, reason: &str) -> Failure {
    match reason.starts_with("column '") {
        true => Failure::input(format!("{name}: {reason}")),
        false => Failure::input(format!("cannot read {name} as an Arrow file: {reason}")),
    }
}
