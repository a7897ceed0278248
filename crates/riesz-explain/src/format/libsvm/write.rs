//! Writes a model as a LIBSVM file.

use super::{KINDS, MachineType, PASSED, length_of, places};
use crate::error::{Error, Result};
use crate::kernel::{Factor, Profile};
use crate::kernel_model::{KernelExpansion, Link};
use crate::table::ColumnKind;

/// Writes a model in LIBSVM's format. Numbers have as many digits as needed to read back the same double (at
/// most 17). Column names are lost, and so are trailing columns that are 0 at every support point, unless the
/// reader knows the width. With several classes, support points are sorted by class. The type is `c_svc` or
/// `epsilon_svr`, unless the model card has another type under "svm_type".
///
/// # Errors
/// [`Error::Format`], with the reason, if LIBSVM cannot represent the model. Its kernels are one Gaussian
/// with a common length scale, or one linear, polynomial or sigmoid factor without shift, over all columns.
/// Its labels are whole numbers.
pub fn write(model: &KernelExpansion) -> Result<String> {
    model.validate()?;
    if let Some(c) = model.columns().iter().find(|c| c.kind != ColumnKind::Numeric) {
        return refuse(format!("the column '{}' holds categories", c.name));
    }
    let (kernel, factor) = kernel_of(model)?;
    let kind = match model.link {
        Link::Identity if model.outputs() == 1 => MachineType::Regressor,
        Link::Identity => return refuse("it has several outputs: write them one by one"),
        Link::Log | Link::Logit => return refuse("its output is the logarithm of a rate"),
        Link::Vote if model.fact("svm_type") == Some("one_class") && model.classes == ["-1", "1"] => {
            MachineType::OneClass
        }
        Link::Vote => MachineType::Classifier,
        _ => return refuse("it is a probability model, but LIBSVM uses decision values"),
    };
    let named = KINDS.iter().find(|(name, k)| model.fact("svm_type") == Some(*name) && *k == kind);
    let named = named.or_else(|| KINDS.iter().find(|(_, k)| *k == kind));
    let type_name = named.map_or("c_svc", |(name, _)| *name);

    // Machines that are no classifiers have the layout of two classes, the first with all support vectors.
    let k = if kind == MachineType::Classifier { model.classes.len() } else { 2 };
    let mut out = format!("svm_type {type_name}\n{kernel}nr_class {}\n", model.classes.len().max(2));
    out += &format!("total_sv {}\n", model.support_points.rows());
    let rho: Vec<String> = model.intercept.iter().map(|b| digits(0.0 - b)).collect();
    out += &format!("rho {}\n", rho.join(" "));
    let owners =
        if kind == MachineType::Classifier { owners(model)? } else { vec![0; model.support_points.rows()] };
    if kind == MachineType::Classifier {
        out += &format!("label {}\n", labels(&model.classes)?.join(" "));
    }
    for key in PASSED {
        let numbers: Option<Vec<f64>> =
            model.fact(key).and_then(|v| v.split_ascii_whitespace().map(|w| w.parse().ok()).collect());
        if let Some(numbers) = numbers.filter(|n| !n.is_empty() && n.iter().all(|v| v.is_finite())) {
            let words: Vec<String> = numbers.into_iter().map(digits).collect();
            out += &format!("{key} {}\n", words.join(" "));
        }
    }
    if kind == MachineType::Classifier {
        let count = |class: usize| owners.iter().filter(|o| **o == class).count().to_string();
        out += &format!("nr_sv {}\n", (0..k).map(count).collect::<Vec<_>>().join(" "));
    }
    out += "SV\n";
    let mut order: Vec<usize> = (0..model.support_points.rows()).collect();
    order.sort_by_key(|&r| owners[r]);
    for r in order {
        let row = model.coef.row(r);
        let mut coef = vec![0.0; k - 1];
        places(owners[r], k).for_each(|(place, pair)| coef[place] = row[pair] * factor);
        if coef.iter().any(|c| !c.is_finite()) {
            return refuse(format!("its coefficients times the kernel's scale, {factor}, overflow"));
        }
        let mut words: Vec<String> = coef.into_iter().map(digits).collect();
        for j in 0..model.support_points.width() {
            let value = model.support_points.get(r, j);
            if value != 0.0 {
                words.push(format!("{}:{}", j + 1, digits(value)));
            }
        }
        // LIBSVM ends every line with a space, which its reader accepts.
        out += &words.join(" ");
        out += " \n";
    }
    Ok(out)
}

/// The labels of the classes in LIBSVM's order.
fn labels(classes: &[String]) -> Result<Vec<&str>> {
    // "+1" and "01" would be read back as "1".
    let is_label = |class: &&String| class.parse().is_ok_and(|label: i32| label.to_string() == **class);
    if let Some(class) = classes.iter().find(|class| !is_label(class)) {
        return refuse(format!(
            "the class '{class}' is not a whole number: rename the classes to whole numbers"
        ));
    }
    let mut labels: Vec<&str> = classes.iter().map(String::as_str).collect();
    if let [first, second] = &mut labels[..] {
        std::mem::swap(first, second);
    }
    Ok(labels)
}

fn refuse<T>(why: impl std::fmt::Display) -> Result<T> {
    Err(Error::format(format!("the model cannot be written as a LIBSVM file: {why}")))
}

/// The shortest digits that read back as the same double.
pub(super) fn digits(value: f64) -> String {
    if value == 0.0 {
        "0".into()
    } else if (1e-5..1e16).contains(&value.abs()) {
        value.to_string()
    } else {
        format!("{value:e}")
    }
}

/// The header lines of the kernel, and the scale that multiplies the kernel.
fn kernel_of(model: &KernelExpansion) -> Result<(String, f64)> {
    let width = model.support_points.width();
    let [term] = &model.kernel.terms[..] else {
        return refuse(format!("its kernel, {}, is a sum", model.kernel.formula()));
    };
    let mut columns: Vec<usize> = term.factors.iter().flat_map(|f| f.columns().to_vec()).collect();
    columns.sort_unstable();
    if !columns.iter().copied().eq(0..width) {
        return refuse("its kernel does not read every column once");
    }
    match &term.factors[..] {
        [factor @ (Factor::Linear(_) | Factor::Polynomial(_) | Factor::Sigmoid(_))] => {
            let (name, values) = (factor.declaration().names[0], factor.values());
            let (center, scale) = (values.list("center"), values.list("scale"));
            if center.iter().any(|c| *c != 0.0) || scale.iter().any(|s| *s != scale[0]) {
                return refuse(format!("its {name} kernel shifts the columns or scales them unequally"));
            }
            let (square, mut lines) = (scale[0] * scale[0], format!("kernel_type {name}\n"));
            for argument in ["degree", "gamma", "coef0"] {
                if let [number] = *values.list(argument) {
                    let number = if argument == "gamma" { number / square } else { number };
                    lines += &format!("{argument} {}\n", digits(number));
                }
            }
            Ok((lines, if name == "linear" { term.scale / square } else { term.scale }))
        }
        factors => {
            let mut lengths = Vec::new();
            for factor in factors {
                match factor {
                    Factor::Stationary(s) if s.profile == Profile::Gaussian => {
                        lengths.extend(&s.length_scale)
                    }
                    _ => return refuse(format!("LIBSVM has no kernel {}", model.kernel.formula())),
                }
            }
            if lengths.iter().any(|l| *l != lengths[0]) {
                return refuse(
                    "its length scales differ in the units of the columns, and LIBSVM has one gamma for \
                     all columns",
                );
            }
            let gamma = gamma_of(lengths[0]);
            if !(gamma.is_finite() && gamma > 0.0) {
                return refuse(format!("its length scale, {}, is too extreme for a gamma", lengths[0]));
            }
            Ok((format!("kernel_type rbf\ngamma {}\n", digits(gamma)), term.scale))
        }
    }
}

/// The gamma that reads back as this length scale. Rounding can move it a few units in the last place away
/// from the formula's value.
fn gamma_of(length: f64) -> f64 {
    let formula = 0.5 / (length * length);
    let shifted = |ulps: i64| f64::from_bits(formula.to_bits().wrapping_add_signed(ulps));
    [0, -1, 1, -2, 2, -3, 3, -4, 4]
        .map(shifted)
        .into_iter()
        .find(|g| length_of(*g) == length)
        .unwrap_or(formula)
}

/// The class of every support point, as an index of the labels: a class that occurs in all pairs with a
/// coefficient.
fn owners(model: &KernelExpansion) -> Result<Vec<usize>> {
    let k = model.classes.len();
    let class_of = |r: usize| {
        let row = model.coef.row(r);
        let fits = |class: usize| {
            let covered_pairs = places(class, k).filter(|&(_, pair)| row[pair] != 0.0).count();
            covered_pairs == row.iter().filter(|c| **c != 0.0).count()
        };
        // If only one pair has a coefficient, its sign determines the class.
        let agrees = |class: usize| {
            places(class, k)
                .all(|(place, pair)| if place < class { row[pair] <= 0.0 } else { row[pair] >= 0.0 })
        };
        let candidates: Vec<usize> = (0..k).filter(|class| fits(*class)).collect();
        candidates.iter().copied().find(|class| agrees(*class)).or(candidates.first().copied())
    };
    (0..model.support_points.rows())
        .map(|r| {
            let refused = || {
                refuse(format!("support point {} has coefficients in pairs without a common class", r + 1))
            };
            class_of(r).map_or_else(refused, Ok)
        })
        .collect()
}
