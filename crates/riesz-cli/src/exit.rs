//! Failures that end a command, and its exit codes.

/// The result of every fallible step of a command.
pub type Result<T> = std::result::Result<T, Failure>;

/// The reason why a command ended early.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// An input cannot be used. Exit code 2.
    Input(String),
    /// The command finished, but a requested check failed. Exit code 1.
    Check(String),
    /// The reader of standard output has closed it (`| head`), which is no error. Exit code 0.
    ClosedPipe,
}

impl Failure {
    /// A [`Failure::Input`].
    pub fn input(message: impl Into<String>) -> Self {
        Self::Input(message.into())
    }

    /// This failure, with a name before its message.
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

/// An error of the operating system as plain text.
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
