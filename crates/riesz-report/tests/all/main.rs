//! All integration tests, in one program so that it is linked once.

mod browser;
mod common;
mod downscale_page;
mod duels;
mod effect_page;
mod importance_page;
mod interactions;
mod maps;
mod plots;
mod test_page;
