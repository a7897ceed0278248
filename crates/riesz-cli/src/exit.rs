//! Failures that end a command, and its exit codes.

/// The result of every fallible step of a command.
pub type Result<T> = std::result::Result<T, Failure>;

/// Why a command ended early.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// Something the user gave cannot be used. Exit code 2.
    Input(String),
    /// The command did its work, and a check it was asked to make failed. Exit code 1.
    Check(String),
    /// Whoever read standard output has closed it (`| head`): nothing is wrong. Exit code 0.
    ClosedPipe,
}

impl Failure {
    /// A [`Failure::Input`].
    pub fn input(message: impl Into<String>) -> Self {
        Self::Input(message.into())
    }

    /// This failure, with the name of the file before its message.
    pub fn about(self, name: &str) -> Self {
        match self {
            Self::Input(message) => Self::Input(format!("{name}: {message}")),
            other => other,
        }
    }

    /// A failure to read `name`.
    pub fn reading(name: &str, error: &std::io::Error) -> Self {
        Self::Input(format!("cannot read {name}: {}", plain(error)))
    }

    /// A failure to write `name`.
    pub fn writing(name: &str, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ => Self::Input(format!("cannot write {name}: {}", plain(error))),
        }
    }

    /// The process's exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Input(_) => 2,
            Self::Check(_) => 1,
            Self::ClosedPipe => 0,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Input(message) | Self::Check(message) => f.write_str(message),
            Self::ClosedPipe => f.write_str("standard output is closed"),
        }
    }
}

impl From<riesz::Error> for Failure {
    fn from(error: riesz::Error) -> Self {
        Self::Input(error.to_string())
    }
}

/// An error of the operating system in words.
fn plain(error: &std::io::Error) -> String {
    use std::io::ErrorKind as Kind;
    match error.kind() {
        Kind::NotFound => "there is no such file or folder".into(),
        Kind::PermissionDenied => "permission denied".into(),
        Kind::IsADirectory => "it is a folder, not a file".into(),
        Kind::StorageFull => "no space is left on the device".into(),
        _ => error.to_string(),
    }
}
