//! riesz on the command line.
fn main() {}
