//! Every model with every game and every plot, through files: all registered names work from end to end.

use riesz::Game;
use riesz::fit::{MODELS, OutputType};
use riesz_report::{PLOTS, Shows};

use crate::common::Place;

#[test]
fn every_model_under_every_game_in_every_plot() {
    let place = Place::new();
    let rows: Vec<[f64; 3]> = (0..30)
        .map(|i| {
            let (a, b) = ((f64::from(i) * 0.7).sin(), (f64::from(i) * 0.3).cos());
            [a, b, a * b + f64::from(i % 3)]
        })
        .collect();
    let line =
        |r: &[f64; 3]| format!("{},{},{},{}\n", r[0], r[1], r[2], if r[2] > 1.0 { "high" } else { "low" });
    let table = |rows: &[[f64; 3]]| format!("a,b,y,class\n{}", rows.iter().map(line).collect::<String>());
    place.write("t.csv", table(&rows));
    place.write("one.csv", table(&rows[..1]));
    for kind in MODELS {
        let target = if kind.predicts == OutputType::Class { ("class", "y") } else { ("y", "class") };
        let posterior = if kind.posterior { "--posterior" } else { "" };
        let name = kind.name;
        place.good(&format!(
            "fit t.csv --target {} --ignore {} --model {name} {posterior} -o {name}.riesz",
            target.0, target.1
        ));
        let std = if kind.posterior && kind.predicts != OutputType::Class { "--std" } else { "" };
        let (predicted, _) = place.good(&format!("predict {name}.riesz t.csv {std}"));
        assert_eq!(predicted.lines().count(), 31, "{name}");
        assert!(place.good(&format!("inspect {name}.riesz")).0.contains("kernel"), "{name}");
        for game in Game::NAMES {
            let absent = match game {
                "functional" => "",
                "baseline" => "--baseline one.csv",
                "causal" => "--background t.csv --components a;b",
                _ => "--background t.csv",
            };
            let (_, err) =
                place.good(&format!("explain {name}.riesz t.csv --game {game} {absent} -o e.json"));
            assert!(err.contains("exact: values add up to the predictions"), "{name} {game}: {err}");
            // Pairs have values in every game except those that value coalitions.
            let of_pairs = !["observational", "causal"].contains(&game);
            if of_pairs {
                place.good(&format!(
                    "explain {name}.riesz t.csv --game {game} {absent} --index k-sii -o pairs.json"
                ));
            }
            for plot in PLOTS {
                let mut file = "e.json";
                if plot.shows == Shows::Interactions {
                    place.bad(&format!("plot {} e.json -o p.svg", plot.name), "explain with --index k-sii");
                    if !of_pairs {
                        continue;
                    }
                    file = "pairs.json";
                }
                place.good(&format!("plot {} {file} -o p.svg", plot.name));
                let picture = place.read("p.svg");
                assert!(
                    picture.starts_with("<svg") && !picture.contains("NaN"),
                    "{name} {game} {}",
                    plot.name
                );
            }
            place.good("report e.json -o r.html");
            if of_pairs {
                place.good("report pairs.json -o r.html");
            }
        }
    }
}
