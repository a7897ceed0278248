//! Output of results: standard output, or a file that appears only when it is complete.
//!
//! A file is written under a temporary name beside its target and renamed at the end, so that an interrupted
//! or failed run leaves the previous file unchanged. Devices and pipes (`/dev/null`, `>(…)`) are written to
//! directly.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tempfile::TempPath;

use crate::exit::{Failure, Result};

/// Temporary files to remove on an interrupt.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs a handler that removes unfinished files and ends the process on an interrupt or termination
/// signal.
pub fn clean_up_on_interrupt() {
    // Without a handler the process stops all the same, but leaves its temporary file.
    let _ = ctrlc::set_handler(|| {
        for path in unfinished().iter() {
            let _ = std::fs::remove_file(path);
        }
        std::process::exit(130);
    });
}

/// The first error while writing, kept where writers of other crates cannot replace it.
#[derive(Clone, Default)]
pub struct FirstWriteError(Arc<Mutex<Option<Failure>>>);

impl FirstWriteError {
    /// The failure to report: the kept one, or else `error`.
    pub fn or(&self, error: impl std::fmt::Display) -> Failure {
        let first_error = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        first_error.unwrap_or_else(|| Failure::input(format!("cannot write the result: {error}")))
    }

    fn keep(&self, failure: Failure) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
    }
}

enum Sink {
    Stdout(BufWriter<io::Stdout>),
    Direct(BufWriter<File>),
    Temporary { file: BufWriter<File>, path: TempPath, target: PathBuf },
}

/// Destination of a result.
pub struct Output {
    sink: Sink,
    name: String,
    first_error: FirstWriteError,
}

const BUFFER: usize = 1 << 16;

impl Output {
    /// Opens `path`, or standard output if there is none or it is `-`.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path.filter(|p| p.as_os_str() != "-") else {
            let sink = Sink::Stdout(BufWriter::with_capacity(BUFFER, io::stdout()));
            return Ok(Self {
                sink,
                name: "standard output".into(),
                first_error: FirstWriteError::default(),
            });
        };
        let name = path.display().to_string();
        let fail = |e: io::Error| Failure::writing(&name, &e);
        // A link is kept: the file to which it points is replaced.
        let target = match std::fs::canonicalize(path) {
            Ok(real) => real,
            Err(e) if e.kind() == io::ErrorKind::NotFound => path.to_path_buf(),
            Err(e) => return Err(fail(e)),
        };
        let existing = std::fs::metadata(&target).ok();
        if existing.as_ref().is_some_and(std::fs::Metadata::is_dir) {
            return Err(fail(io::ErrorKind::IsADirectory.into()));
        }
        if existing.as_ref().is_some_and(|m| !m.is_file()) {
            let file = File::options().write(true).open(&target).map_err(fail)?;
            let sink = Sink::Direct(BufWriter::with_capacity(BUFFER, file));
            return Ok(Self { sink, name, first_error: FirstWriteError::default() });
        }
        if existing.as_ref().is_some_and(|m| m.permissions().readonly()) {
            return Err(fail(io::ErrorKind::PermissionDenied.into()));
        }
        let folder = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".riesz-").suffix(".tmp");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // These are the permissions of a new file; the process's mask applies.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let (file, temporary) = builder.tempfile_in(folder).map_err(fail)?.into_parts();
        if let Some(existing) = &existing {
            let _ = file.set_permissions(existing.permissions());
        }
        unfinished().push(temporary.to_path_buf());
        let file = BufWriter::with_capacity(BUFFER, file);
        let sink = Sink::Temporary { file, path: temporary, target };
        Ok(Self { sink, name, first_error: FirstWriteError::default() })
    }

    /// Whether the bytes go to a terminal.
    pub fn is_terminal(&self) -> bool {
        matches!(self.sink, Sink::Stdout(_)) && io::stdout().is_terminal()
    }

    /// A handle to the first write error, for use when another crate owns this destination.
    pub fn first_error(&self) -> FirstWriteError {
        self.first_error.clone()
    }

    /// Writes everything out and renames the file to its target.
    pub fn finish(mut self) -> Result<()> {
        self.flush().map_err(|e| self.first_error.or(e))?;
        if let Sink::Temporary { file, path, target } = self.sink {
            let name = &self.name;
            let file = file.into_inner().map_err(|e| Failure::writing(name, e.error()))?;
            file.sync_all().map_err(|e| Failure::writing(name, &e))?;
            drop(file);
            let temporary = path.to_path_buf();
            path.persist(&target).map_err(|e| Failure::writing(name, &e.error))?;
            unfinished().retain(|p| *p != temporary);
        }
        Ok(())
    }

    fn inner(&mut self) -> &mut dyn Write {
        match &mut self.sink {
            Sink::Stdout(out) => out,
            Sink::Direct(file) | Sink::Temporary { file, .. } => file,
        }
    }

    fn keep_error<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && error.kind() != io::ErrorKind::Interrupted
        {
            self.first_error.keep(Failure::writing(&self.name, error));
        }
        result
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.inner().write(bytes);
        self.keep_error(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.inner().flush();
        self.keep_error(result)
    }
}

/// Writes `bytes` to `path` or standard output.
pub fn write_all(path: Option<&Path>, bytes: &[u8]) -> Result<()> {
    let mut output = Output::open(path)?;
    let first_error = output.first_error();
    output.write_all(bytes).map_err(|e| first_error.or(e))?;
    output.finish()
}
