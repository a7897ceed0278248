//! How much memory conditional mean embeddings take, said before they take it.

use super::{Approximation, Conditioning};
use crate::error::{Error, Result};

impl Conditioning {
    /// Refuses what would take more memory than there is: embeddings on so many reference rows for so many players, and `more` doubles
    /// beside them.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn check_memory(&self, rows: usize, players: usize, more: f64) -> Result<()> {
        let Some(available) = self.memory else { return Ok(()) };
        let (n, p, threads) = (rows as f64, players as f64, rayon::current_num_threads() as f64);
        // What all coalitions share, and the system of the one that each thread is at.
        let doubles = match self.approximation {
            Approximation::Exact => (p + threads) * n * n,
            Approximation::Landmarks(m) => {
                let m = m.min(rows) as f64;
                p * m * m + threads * m * (2.0 * m + n)
            }
            Approximation::RandomFeatures(m) => threads * m as f64 * (m as f64 + n),
            // Takes its rows in portions that fit.
            Approximation::ConjugateGradients(_) => 0.0,
        };
        let needed = 8.0 * (doubles + more);
        if needed <= available as f64 {
            return Ok(());
        }
        Err(Error::Memory {
            what: format!("the observational game on {rows} reference rows"),
            needed,
            available,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approximations_need_less() {
        let check = |approximation, memory| {
            let conditioning = Conditioning { approximation, memory, ..Conditioning::default() };
            conditioning.check_memory(100_000, 10, 0.0)
        };
        let some = Some(16 << 30);
        let refused = check(Approximation::Exact, some).unwrap_err().to_string();
        assert!(refused.contains("100000 reference rows") && refused.contains("GB are free"), "{refused}");
        assert!(check(Approximation::Landmarks(100), some).is_ok());
        assert!(check(Approximation::RandomFeatures(100), some).is_ok());
        assert!(check(Approximation::Landmarks(usize::MAX), some).is_err());
        assert!(check(Approximation::RandomFeatures(usize::MAX), some).is_err());
        assert!(check(Approximation::Exact, None).is_ok());
    }
}
