//! Pictures and pages from explanations.
