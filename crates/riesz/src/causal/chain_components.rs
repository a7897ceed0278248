//! Causal structures of the causal game from graphs: variables with hidden common causes are components.

use super::graph::{Graph, Nodes};
use super::projection::MixedGraph;
use crate::error::{Error, Result};
use crate::{CausalComponent, CausalStructure};

impl Graph {
    /// The structure of some variables for the [causal game](crate::Game::Causal). Other variables of the
    /// graph are removed by latent projection. Variables that hidden common causes connect are a confounded
    /// component, and each other variable is a component with its direct causes as parents.
    ///
    /// ```
    /// use riesz::causal::Graph;
    ///
    /// let graph = Graph::parse("age -> income; age -> debt; income <-> debt; debt -> default")?;
    /// let structure = graph.causal_structure(&["income", "debt", "age"])?;
    /// let [age, pair] = &structure.components[..] else { panic!("two components") };
    /// assert_eq!(age.columns, ["age"]);
    /// assert!(pair.confounded && pair.parents.as_deref() == Some(&["age".to_string()][..]));
    /// # Ok::<(), riesz::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`IdentificationError::UnknownVariable`](super::IdentificationError::UnknownVariable);
    /// [`Error::Parameter`] if confounded variables cause each other, directly or through other variables.
    pub fn causal_structure<S: AsRef<str>>(&self, variables: &[S]) -> Result<CausalStructure> {
        let measured = self.node_indices(variables)?;
        let mixed = MixedGraph::project(self, &measured);
        let mut remaining = mixed.districts(&mixed.causal_order(), &measured);
        let parents = |district: &Nodes| -> Nodes {
            district.iter().flat_map(|&v| mixed.parents_of(v)).copied().collect()
        };
        let (mut components, mut placed) = (Vec::new(), Nodes::new());
        while !remaining.is_empty() {
            let next = remaining.iter().position(|district| parents(district).is_subset(&placed));
            let Some(next) = next else { return Err(self.unordered(&remaining)) };
            let district = remaining.remove(next);
            components.push(CausalComponent {
                parents: Some(self.named(&parents(&district))),
                columns: self.named(&district),
                confounded: district.len() > 1,
            });
            placed.extend(district);
        }
        Ok(components.into())
    }

    /// The error for districts that have no causal order.
    fn unordered(&self, districts: &[Nodes]) -> Error {
        let confounded = districts.iter().find(|district| district.len() > 1);
        let names = confounded.map(|district| self.named(district).join(" <-> "));
        let allowed = "these variables have hidden common causes and cause each other, directly or through \
                       others, which the components of a causal game cannot express: leave out the arrow or \
                       the common cause that matters less";
        Error::parameter("graph", names.unwrap_or_default(), allowed)
    }
}
