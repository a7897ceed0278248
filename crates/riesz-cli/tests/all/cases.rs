//! All shared cases on the command line: a model file and tables as input, tables and JSON as output.

use std::fmt::Write;

use riesz::embedding::Ridge;
use riesz::format::model::{SavedModel, to_bytes};
use riesz::{ConditionalModel, Game, Table};

use crate::common::{Place, cells, number};

#[path = "../../../../cases/load.rs"]
mod load;

fn csv_text(table: &Table) -> String {
    let names: Vec<&str> = table.columns().iter().map(|column| column.name.as_str()).collect();
    let mut text = names.join(",") + "\n";
    for i in 0..table.rows() {
        let cells: Vec<String> = table.row(i).iter().map(|v| format!("{v:?}")).collect();
        writeln!(text, "{}", cells.join(",")).unwrap();
    }
    text
}

#[test]
fn every_case_agrees_through_files() {
    let place = Place::new();
    for case in load::cases() {
        let (reference, mut options) = match &case.game {
            Game::Baseline { point } => (Some(point), "--baseline b.csv".to_string()),
            Game::Interventional { background } | Game::MarginalProduct { background } => {
                (Some(&background.rows), "--background b.csv".to_string())
            }
            Game::Observational { reference, conditional: ConditionalModel::Embedding(conditioning) } => {
                let Ridge::Fixed(ridge) = conditioning.ridge else { panic!("no ridge") };
                (Some(&reference.rows), format!("--background b.csv --conditional-ridge {ridge}"))
            }
            _ => (None, String::new()),
        };
        write!(options, " --game {}", case.game.name()).unwrap();
        if let Some(table) = reference {
            place.write("b.csv", csv_text(table));
        }
        place.write("rows.csv", csv_text(&case.rows));
        let model = case.model.clone();
        place.write("m.riesz", to_bytes(&SavedModel { model, covariance: None, groups: None }).unwrap());
        let digits = if matches!(case.game, Game::Observational { .. }) { 1e-12 } else { 1e-13 };

        let (out, _) = place.good(&format!("explain m.riesz rows.csv {options}"));
        let lines = cells(&out).split_off(1);
        let column = |k: usize| lines.iter().map(|line| number(&line[k])).collect::<Vec<_>>();
        let values: Vec<f64> = lines.iter().flat_map(|line| &line[5..]).map(|text| number(text)).collect();
        case.check("riesz to CSV", [&column(2), &column(3), &values], |_| digits);
        for (k, line) in lines.iter().enumerate() {
            assert_eq!(line[0], (k / case.model.outputs()).to_string());
        }

        place.good(&format!("explain m.riesz rows.csv {options} -o e.json"));
        let explanation =
            riesz::format::explanation_json::read(place.read("e.json").as_bytes()).unwrap().explanation;
        case.check(
            "riesz to JSON",
            [&explanation.base_values, &explanation.predictions, &explanation.values],
            |_| digits,
        );
    }
}
