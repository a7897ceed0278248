//! A checkpoint folder, in which units of work store their results; each result is a file that is complete or
//! absent.

use std::path::{Path, PathBuf};

use riesz::fit::nystrom::{FitPlan, Job, Kind, ResultStore, names};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::exit::{Failure, Result};
use crate::io::dataset::{Dataset, Roles};
use crate::io::input::{name_of, read_file};
use crate::io::output::write_all;

/// The definition of a fit. Its digest names the folder of the results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The version of riesz.
    pub riesz: String,
    /// The files of the data.
    pub data: Dataset,
    /// The roles of columns.
    pub roles: Roles,
    /// The kernel, as an expression.
    pub kernel: String,
    /// Whether the kernel reads columns in units of their standard deviations.
    pub standardised: bool,
    /// The fit to perform.
    pub job: Job,
}

impl Request {
    /// The name of the request's folder. Levels of categories and classes are left out, as the data determine
    /// them.
    pub fn digest(&self) -> String {
        let mut plain = self.clone();
        for column in &mut plain.roles.features {
            if let riesz::ColumnKind::Categorical { levels } = &mut column.kind {
                levels.clear();
            }
        }
        plain.roles.classes = None;
        if let Kind::Classes { names, .. } = &mut plain.job.kind {
            names.clear();
        }
        let bytes = serde_json::to_vec(&plain).unwrap_or_default();
        Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The file name of the request.
const REQUEST: &str = "request.json";

/// A checkpoint folder, or none.
pub struct Checkpoint {
    folder: Option<PathBuf>,
    /// The number of results that the folder already had.
    pub loaded: usize,
}

impl Checkpoint {
    /// A checkpoint that keeps nothing.
    pub fn none() -> Self {
        Self { folder: None, loaded: 0 }
    }

    /// Opens the folder, or creates it.
    pub fn open(folder: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&folder).map_err(|e| Failure::writing(&name_of(&folder), &e))?;
        Ok(Self { folder: Some(folder), loaded: 0 })
    }

    /// The folder.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Stores the request.
    pub fn put_request(&mut self, request: &Request) -> Result<()> {
        let bytes = serde_json::to_vec_pretty(request).map_err(|e| Failure::input(e.to_string()))?;
        self.put(REQUEST, &bytes)
    }

    /// The stored request, if there is one.
    pub fn request(&mut self) -> Result<Option<Request>> {
        let Some(bytes) = self.get(REQUEST)? else { return Ok(None) };
        let damaged = |e: serde_json::Error| {
            Failure::input(format!(
                "{REQUEST} in the checkpoint is damaged ({e}): remove the folder and start again"
            ))
        };
        serde_json::from_slice(&bytes).map(Some).map_err(damaged)
    }

    /// The stored plan, if there is one.
    pub fn plan(&mut self) -> Result<Option<FitPlan>> {
        let Some(bytes) = self.get(names::PLAN)? else { return Ok(None) };
        FitPlan::from_bytes(&bytes).map(Some).map_err(|e| Failure::from(e).about(names::PLAN))
    }
}

impl ResultStore<Failure> for Checkpoint {
    fn get(&mut self, name: &str) -> Result<Option<Vec<u8>>> {
        let Some(path) = self.folder.as_ref().map(|folder| folder.join(name)) else { return Ok(None) };
        if !path.exists() {
            return Ok(None);
        }
        self.loaded += 1;
        read_file(&path).map(Some)
    }

    fn put(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        write_all(Some(&folder.join(name)), bytes)
    }
}

/// Opens a checkpoint folder, and reads its request and plan.
pub fn planned(folder: &Path) -> Result<(Checkpoint, Request, FitPlan)> {
    let missing = || {
        Failure::input(format!(
            "{} holds no plan: make one with 'riesz fit … --checkpoint DIR --plan-only', which prints the \
             folder",
            name_of(folder)
        ))
    };
    if !folder.is_dir() {
        return Err(missing());
    }
    let mut checkpoint = Checkpoint { folder: Some(folder.to_path_buf()), loaded: 0 };
    let request = checkpoint.request()?.ok_or_else(missing)?;
    let plan = checkpoint.plan()?.ok_or_else(missing)?;
    Ok((checkpoint, request, plan))
}
