//! Causal structures: ordered components of columns, for the [causal game](super::Game::Causal).

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, listed};
use crate::table::Column;

/// A component of a causal chain graph: columns that depend on each other, without a causal order among them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CausalComponent {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The names of the columns that cause this component's columns, each of an earlier component. `None` for
    /// all columns of earlier components.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parents: Option<Vec<String>>,
    /// Whether the columns depend on each other because of unobserved common causes. An intervention on one
    /// column then leaves the others unchanged. If false, the columns interact with each other, and an
    /// intervention on one changes the others as its observation does.
    #[serde(default)]
    pub confounded: bool,
}

impl CausalComponent {
    /// A component of mutually interacting columns, whose parents are all earlier columns.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = S>) -> Self {
        Self { columns: columns.into_iter().map(Into::into).collect(), parents: None, confounded: false }
    }

    /// This component with its columns confounded.
    #[must_use]
    pub fn confounded(self) -> Self {
        Self { confounded: true, ..self }
    }

    /// This component with these parents.
    #[must_use]
    pub fn with_parents<S: Into<String>>(self, parents: impl IntoIterator<Item = S>) -> Self {
        Self { parents: Some(parents.into_iter().map(Into::into).collect()), ..self }
    }
}

/// A causal chain graph: components of columns in causal order. Each column belongs to one component. A
/// directed acyclic graph has one component per column, with the column's parents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CausalStructure {
    /// The components; causes are in earlier components than their effects.
    pub components: Vec<CausalComponent>,
}

impl From<Vec<CausalComponent>> for CausalStructure {
    fn from(components: Vec<CausalComponent>) -> Self {
        Self { components }
    }
}

/// A component with columns given by their indices.
pub(crate) struct ComponentColumns {
    pub(crate) columns: Vec<usize>,
    pub(crate) parents: Vec<usize>,
    pub(crate) confounded: bool,
}

/// A causal structure as lists of names, in the form of the settings of front ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructureLists {
    /// The columns of each component.
    pub components: Vec<Vec<String>>,
    /// A column of each confounded component.
    pub confounded: Vec<String>,
    /// Lists of a column, which names its component, and the component's parents.
    pub parents: Vec<Vec<String>>,
}

impl CausalStructure {
    /// The structure as lists of names.
    pub fn to_lists(&self) -> StructureLists {
        let first = |component: &CausalComponent| component.columns.first().cloned();
        let parents = |component: &CausalComponent| {
            let parents = component.parents.as_ref()?;
            Some(first(component).into_iter().chain(parents.iter().cloned()).collect())
        };
        StructureLists {
            components: self.components.iter().map(|component| component.columns.clone()).collect(),
            confounded: self.components.iter().filter(|c| c.confounded).flat_map(first).collect(),
            parents: self.components.iter().filter_map(parents).collect(),
        }
    }

    /// A structure from lists of names, as front ends receive them: the columns of each component, the
    /// columns whose components are confounded, and the parents of the components that contain a column.
    /// Other components have all earlier columns as parents.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a confounded column or a column with parents that is in no component, and for
    /// a component with two lists of parents.
    pub fn from_lists(
        components: Vec<Vec<String>>,
        confounded: &[String],
        parents: impl IntoIterator<Item = (String, Vec<String>)>,
    ) -> Result<Self> {
        let mut components: Vec<CausalComponent> = components.into_iter().map(CausalComponent::new).collect();
        let position = |components: &[CausalComponent], setting: &str, name: &String| {
            let component = components.iter().position(|component| component.columns.contains(name));
            component.ok_or_else(|| {
                let known = components.iter().flat_map(|component| &component.columns);
                let allowed = format!("it is a column of a component; these are {}", listed(known));
                Error::parameter(setting, format!("'{name}'"), allowed)
            })
        };
        for name in confounded {
            let component = position(&components, "confounded", name)?;
            components[component].confounded = true;
        }
        for (name, parents) in parents {
            let component = position(&components, "parents", &name)?;
            if components[component].parents.replace(parents).is_some() {
                let allowed = "its component has parents already: name one column of each component";
                return Err(Error::parameter("parents", format!("'{name}'"), allowed));
            }
        }
        Ok(components.into())
    }

    /// The components with the indices of their columns.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`]; [`Error::Parameter`] for a column in two components or in none, for an empty
    /// component, and for a parent that is not in an earlier component.
    pub(crate) fn resolve(&self, columns: &[Column]) -> Result<Vec<ComponentColumns>> {
        let mut component_of: Vec<Option<usize>> = vec![None; columns.len()];
        let mut resolved: Vec<ComponentColumns> = Vec::with_capacity(self.components.len());
        for (k, component) in self.components.iter().enumerate() {
            if component.columns.is_empty() {
                let allowed = "a component has at least one column: leave it out";
                return Err(Error::parameter("components", format!("component {}", k + 1), allowed));
            }
            let mut members = Vec::with_capacity(component.columns.len());
            for name in &component.columns {
                let j = index_of(columns, name)?;
                if component_of[j].replace(k).is_some() {
                    let allowed = "a column belongs to one component only";
                    return Err(Error::parameter("components", format!("'{name}'"), allowed));
                }
                members.push(j);
            }
            let parents = match &component.parents {
                None => resolved.iter().flat_map(|earlier| &earlier.columns).copied().collect(),
                Some(names) => names.iter().map(|name| index_of(columns, name)).collect::<Result<_>>()?,
            };
            resolved.push(ComponentColumns { columns: members, parents, confounded: component.confounded });
        }
        if let Some(j) = component_of.iter().position(Option::is_none) {
            let allowed = "every column of the model is in a component: add it, alone if need be";
            let value = format!("a list without '{}'", columns[j].name);
            return Err(Error::parameter("components", value, allowed));
        }
        for (k, component) in resolved.iter().enumerate() {
            if let Some(j) = component.parents.iter().find(|&&j| component_of[j] >= Some(k)) {
                let allowed = format!(
                    "it is not in an earlier component than its effect '{}': put causes first, and columns \
                     that cause each other into one component",
                    columns[component.columns[0]].name
                );
                return Err(Error::parameter("parents", format!("'{}'", columns[*j].name), allowed));
            }
        }
        Ok(resolved)
    }
}

/// The index of the column with this name.
fn index_of(columns: &[Column], name: &str) -> Result<usize> {
    columns.iter().position(|column| column.name == name).ok_or_else(|| Error::UnknownColumn {
        name: name.into(),
        known: listed(columns.iter().map(|column| &column.name)),
    })
}
