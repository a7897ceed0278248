//! `riesz demo`: the whole path on bundled data.

use crate::args::{DemoArgs, Global};
use crate::console::Console;
use crate::failure::Result;

/// Runs it.
pub fn run(_: &DemoArgs, _: &Global, _: Console) -> Result<()> {
    Ok(())
}
