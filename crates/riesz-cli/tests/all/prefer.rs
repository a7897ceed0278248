//! Tests of `riesz prefer`: text, tables, pictures and pages, and refused input.

use riesz::format::explanation_json::read;

use crate::common::{Place, estimates_lie_in_their_intervals};

/// Writes nine items on a circle, each of which beats the next two; their sizes have no influence.
fn circle() -> Place {
    let place = Place::new();
    let item = |i: usize| {
        let angle = i as f64 / 9.0 * std::f64::consts::TAU;
        format!("i{i},{:.4},{:.4},{}\n", angle.cos(), angle.sin(), i * 5 % 9)
    };
    place.write("items.csv", format!("name,east,north,size\n{}", (0..9).map(item).collect::<String>()));
    let won = (0..9).flat_map(|i| [1, 2].map(|step| format!("i{i},i{}\n", (i + step) % 9)));
    place.write("duels.csv", format!("winner,loser\n{}", won.collect::<String>()));
    place
}

#[test]
fn duels_go_from_tables_to_pages() {
    let place = circle();
    let (_, err) = place.good("prefer fit items.csv duels.csv -o m.riesz");
    assert!(err.contains("18 duels (18 pairs met), 9 items, one connected component"), "{err}");
    assert!(
        err.contains("0 items never lost, 0 never won")
            && err.contains("prior variance of the generalised part"),
        "{err}"
    );
    let (words, _) = place.good("prefer explain m.riesz items.csv --left i0 --right i1");
    assert!(
        words.starts_with("i0 beats i1 with probability 0.") && words.contains("exact: values add up"),
        "{words}"
    );
    assert!(words.contains("  size") && words.contains("  (0 against 5)"), "{words}");
    // The reversed duel has the same values with opposite signs.
    let number = |text: &str, name: &str| -> f64 {
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let (other, _) = place.good("prefer explain m.riesz items.csv --left i1 --right i0");
    for name in ["east", "north", "size"] {
        assert_eq!(number(&words, name), -number(&other, name), "{name}");
    }
    let (odds, _) = place.good("prefer predict m.riesz items.csv duels.csv");
    let mut lines = odds.lines();
    let header =
        "left,right,log_odds,log_odds_std,probability,probability_low,probability_high,probability_better";
    assert_eq!(lines.next(), Some(header));
    for line in lines {
        let cells: Vec<f64> = line.split(',').skip(2).map(|v| v.parse().unwrap()).collect();
        assert!(
            cells[0] > 0.0 && cells[2] > 0.5 && cells[3] < cells[2] && cells[2] < cells[4] && cells[5] > 0.5,
            "{line}"
        );
    }
    place.good("prefer explain m.riesz items.csv duels.csv --game paired --covariance -o why.json");
    let explanation = read(place.read("why.json").as_bytes()).unwrap().explanation;
    // The data of the 18 duels are differences, and the items' abilities.
    assert_eq!((explanation.rows(), explanation.data.width()), (18, 4));
    assert_eq!(explanation.data.get(0, 2), -5.0);
    for plot in ["beeswarm", "waterfall", "bar", "dependence --feature size", "heatmap", "force"] {
        place.good(
            &format!("plot {plot} why.json -o p.svg")
                .replace("dependence --feature size why.json", "dependence why.json --feature size"),
        );
    }
    place.good("report why.json -o page.html");
    assert!(place.read("page.html").contains("left"));
    // The file is an ordinary model.
    assert!(place.good("inspect m.riesz").0.contains("preferential Gaussian process"));
    for game in [
        "independent",
        "functional",
        "observational --conditional-ridge 0.01",
        "baseline --baseline i3",
        "matches --matches duels.csv",
    ] {
        let flag = if game == "functional" { "" } else { "--covariance" };
        let (_, err) = place
            .good(&format!("prefer explain m.riesz items.csv duels.csv --game {game} {flag} -o why.csv"));
        assert!(err.contains("18 duels explained; exact"), "{game}: {err}");
        assert_eq!(place.read("why.csv").contains("std:east"), game != "functional", "{game}");
    }
    let (_, err) =
        place.good("prefer explain m.riesz items.csv duels.csv --game paired --orders 40 -o why.csv");
    assert!(err.contains("18 duels explained; estimated"), "{err}");
    let (words, _) =
        place.good("prefer explain m.riesz items.csv --left i0 --right i1 --game paired --orders 40");
    assert!(words.contains(" ± "), "{words}");
    place.good(
        "prefer explain m.riesz items.csv duels.csv --groups place=east,north --index k-sii -o why.json",
    );
    place.good("plot interactions why.json -o p.svg");
}

#[test]
fn models_are_compared_on_pairs_that_they_have_not_seen() {
    let place = circle();
    let (table, _) = place.good("prefer evaluate items.csv duels.csv --repeats 3 --ignore size");
    let line = |name: &str| -> Vec<f64> {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap();
        line.split(',').skip(1).map(|v| v.parse().unwrap()).collect()
    };
    let header = "model,accuracy,accuracy_std,auc,auc_std,log_loss,log_loss_std,log_loss_difference,\
                  log_loss_difference_std_error\n";
    assert!(table.starts_with(header), "{table}");
    // Differences are those of the mean log losses from the lowest one.
    let best = ["nested", "generalised", "coin"].map(|name| line(name)[4]).into_iter().fold(1.0, f64::min);
    assert!((line("coin")[6] - (line("coin")[4] - best)).abs() < 1e-12 && line("coin")[7] > 0.0, "{table}");
    assert!(line("nested")[0] > 0.8 && line("generalised")[0] > 0.8, "{table}");
    // No utility represents a cycle.
    assert!(line("utility")[0] < 0.7, "{table}");
}

#[test]
fn wide_tables_are_read_as_items_and_duels() {
    let place = circle();
    let items: Vec<Vec<String>> =
        place.read("items.csv").lines().skip(1).map(|l| l.split(',').map(String::from).collect()).collect();
    let row = |l: usize, r: usize, o: &str| {
        format!("{},{},{},{},{o}\n", items[l][1], items[l][2], items[r][1], items[r][2])
    };
    let rows: String = (0..9)
        .map(|i| if i % 2 == 0 { row(i, (i + 1) % 9, "left") } else { row((i + 1) % 9, i, "right") })
        .collect();
    place.write("wide.csv", format!("left_east,left_north,right_east,right_north,outcome\n{rows}"));
    let (_, err) = place.good("prefer fit wide.csv --no-tuning -o w.riesz");
    assert!(err.contains("9 duels (9 pairs met), 9 items"), "{err}");
    place.write(
        "one.csv",
        place
            .read("duels.csv")
            .lines()
            .enumerate()
            .filter(|(i, _)| i % 2 == 1 || *i == 0)
            .map(|(_, l)| format!("{l}\n"))
            .collect::<String>(),
    );
    place.good("prefer fit items.csv one.csv --ignore size --no-tuning -o m.riesz");
    let predictions = |model: &str| place.good(&format!("prefer predict {model} items.csv duels.csv")).0;
    let numbers = |text: String| -> Vec<f64> {
        text.lines()
            .skip(1)
            .flat_map(|l| l.split(',').skip(2).map(|v| v.parse().unwrap()).collect::<Vec<f64>>())
            .collect()
    };
    for (a, b) in numbers(predictions("w.riesz")).iter().zip(numbers(predictions("m.riesz"))) {
        assert!((a - b).abs() < 1e-9, "{a} {b}");
    }
}

#[test]
fn what_is_wrong_with_duels_is_said() {
    let place = circle();
    place.good("prefer fit items.csv duels.csv --no-tuning -o m.riesz");
    let before = std::fs::read(place.path("m.riesz")).unwrap();
    let fit = "prefer fit items.csv t.csv -o m.riesz";
    for (duels, expected) in [
        ("", "is empty"),
        ("winner,loser\n", "no rows"),
        ("winner,loser\ni0,i1\nx,y\n", "lacks: 'x', 'y'"),
        ("winner,loser\ni0,i0\ni1,i2\n", "in row '1' an item meets itself"),
        ("left,right\ni0,i1\n", "'left', 'right' and 'outcome'"),
        ("left,right,outcome\ni0,i1,maybe\n", "row 1 of column 'outcome' is 'maybe'"),
        ("a,b\ni0,i1\n", "the columns are: a, b"),
    ] {
        place.write("t.csv", duels);
        place.bad(fit, expected);
    }
    place.write("t.csv", "winner,loser,w\ni0,i1,0\ni1,i2,1\n");
    place.bad("prefer fit items.csv t.csv --weight w -o m.riesz", "weights are positive");
    place.write("t.csv", "winner,loser\ni0,i0\ni1,i2\n");
    place.good("prefer fit items.csv t.csv --drop-self --no-tuning -o n.riesz");
    place.write("twice.csv", "name,east\na,1\na,2\nb,3\n");
    place.write("t.csv", "winner,loser\na,b\n");
    place.bad("prefer fit twice.csv t.csv -o m.riesz", "item names occur twice: 'a'");
    place.bad("prefer fit items.csv -o m.riesz", "columns left_x and right_x");
    place.bad("prefer fit items.csv duels.csv", "no output file is given for the model");
    assert_eq!(std::fs::read(place.path("m.riesz")).unwrap(), before);
    place.bad("prefer explain m.riesz items.csv --left i0 --right i77", "there is no item 'i77'");
    place.bad("prefer explain m.riesz items.csv duels.csv --orders 9 -o w.csv", "at least 16");
    place.bad(
        "prefer explain m.riesz items.csv duels.csv --orders 20 --covariance -o w.csv",
        "without covariances",
    );
    place.bad("prefer explain m.riesz items.csv --left i0 --right i1 --game baseline", "--baseline ITEM");
    place.bad("prefer predict m.riesz items.csv --left i0 --winner won", "cannot be used with");
    place.bad(
        "prefer explain m.riesz items.csv --left i0 --right i1 --conditional-ridge 1",
        "not used in this game",
    );
    place.bad("prefer explain m.riesz items.csv --left i0 --right i1 --groups g=left_size", "left_size");
    place.write("short.csv", "name,east\ni0,1\ni1,2\n");
    place.bad("prefer predict m.riesz short.csv --left i0 --right i1", "there is no column 'north'");
    place.write("train.csv", "a,b,y\n1,2,3\n2,1,4\n3,5,1\n4,4,2\n");
    place.good("fit train.csv --target y --ridge 1 -o other.riesz");
    place.bad("prefer predict other.riesz items.csv --left i0 --right i1", "left_x and right_x");
    place.bad("prefer evaluate items.csv duels.csv --test 2 --repeats 1", "share of the test");
}

#[test]
fn rankings_and_clusters_are_reported() {
    let place = circle();
    let (table, err) = place.good("prefer rank items.csv duels.csv --ignore size --cycles 2 --samples 100");
    assert!(
        table.starts_with(
            "item,rank,rank_low,rank_high,utility,utility_low,utility_high,elo,elo_low,elo_high,\
             probability_best,probability_best_std_error,probability_condorcet,\
             probability_condorcet_std_error\n"
        ),
        "{table}"
    );
    assert_eq!(table.lines().count(), 10);
    assert!(err.contains("there are cycles") && err.contains("SpecR") && err.contains("cycle: i"), "{err}");
    let (table, err) = place.good("prefer cluster items.csv duels.csv --ignore size --max-clusters 2");
    assert!(
        table.starts_with("item,cluster,probability\ni0,1,") && err.contains("1 clusters: bound"),
        "{table}{err}"
    );
    place.good("prefer cluster items.csv duels.csv --method spectral --clusters 2 -o c.csv");
    place.bad("prefer cluster items.csv duels.csv --method spectral", "--clusters N");
}

/// Writes ten players; the skill of player i is 7 i modulo 10.
fn with_players() -> Place {
    let place = Place::new();
    let item = |i: usize| format!("p{i},{}\n", i * 7 % 10);
    place.write("items.csv", format!("name,skill\n{}", (0..10).map(item).collect::<String>()));
    place
}

/// Returns two players who meet in duel k.
fn players(k: usize) -> (usize, usize) {
    let (l, r) = (k % 10, (k * 3 + 1 + k / 10) % 10);
    (l, if l == r { (r + 1) % 10 } else { r })
}

#[test]
fn duels_have_sides_contexts_and_ties() {
    let place = with_players();
    // The better one wins outdoors, the worse one indoors; neighbours tie; most home players win.
    let duel = |k: usize| {
        let (l, r) = players(k);
        let (a, b) = (l * 7 % 10, r * 7 % 10);
        let place = if k.is_multiple_of(2) { "outdoors" } else { "indoors" };
        let home = ["left", "right", "none"][k % 3];
        let better = (a > b) == k.is_multiple_of(2);
        let outcome = if a.abs_diff(b) == 1 {
            "tie"
        } else if better {
            "left"
        } else {
            "right"
        };
        format!("p{l},p{r},{outcome},{place},{home}\n")
    };
    place.write(
        "duels.csv",
        format!("left,right,outcome,place,venue\n{}", (0..60).map(duel).collect::<String>()),
    );
    place.good("prefer fit items.csv duels.csv --contexts place --home venue --ties model -o m.riesz");
    let win_probability = |words: &str| -> f64 {
        let (table, _) =
            place.good(&format!("prefer predict m.riesz items.csv --left p7 --right p0 {words}"));
        column(&table, "probability")[0]
    };
    // p7 has skill 9, p0 has 0.
    assert!(
        win_probability("--context place=outdoors") > 0.6 && win_probability("--context place=indoors") < 0.4
    );
    assert!(
        win_probability("--context place=outdoors --at-home left")
            != win_probability("--context place=outdoors --at-home right")
    );
    let (words, _) =
        place.good("prefer explain m.riesz items.csv --left p7 --right p0 --context place=outdoors");
    assert!(words.contains("skill") && words.contains("exact"), "{words}");
    place.good("prefer explain m.riesz items.csv duels.csv --home venue --game paired -o why.json");
    place.bad("prefer predict m.riesz items.csv --left p7 --right p0", "--context place=");
    place.bad(
        "prefer predict m.riesz items.csv --left p7 --right p0 --context place=moon",
        "has no such value",
    );
    place.bad(
        "prefer predict m.riesz items.csv --left p7 --right p0 --context place=indoors,day=1",
        "--context day",
    );
    let (table, _) =
        place.good("prefer evaluate items.csv duels.csv --contexts place --models nested,coin --repeats 2");
    assert!(table.lines().count() == 3 && table.contains("coin,0.5,"), "{table}");
    place.good("prefer fit items.csv duels.csv --landmarks 5 -o l.riesz");
    place.good("prefer explain l.riesz items.csv duels.csv -o why.csv");
    // Duels with all options, and as many landmarks as items and contexts, give the dense model.
    let options = "--home venue --contexts place --ties model --no-tuning";
    place.good(&format!("prefer fit items.csv duels.csv {options} -o d.riesz"));
    place.good(&format!("prefer fit items.csv duels.csv {options} --landmarks all -o l.riesz"));
    let odds = |model: &str| -> Vec<f64> {
        let setting = "--left p7 --context place=outdoors --at-home left";
        let (table, _) = place.good(&format!("prefer predict {model} items.csv {setting}"));
        column(&table, "log_odds")
    };
    let (dense, sparse) = (odds("d.riesz"), odds("l.riesz"));
    assert!(
        dense.len() > 5 && dense.iter().zip(&sparse).all(|(a, b)| (a - b).abs() < 1e-4),
        "{dense:?} {sparse:?}"
    );
    place.good("prefer explain l.riesz items.csv duels.csv --home venue -o why.json");
    place.good(&format!(
        "prefer evaluate items.csv duels.csv {options} --landmarks 4 --context-landmarks 1 \
                         --models nested --repeats 1"
    ));
    place.bad("prefer fit items.csv duels.csv --landmarks some -o l.riesz", "a number, 'all' or 'none'");
    place.bad("prefer fit items.csv duels.csv --landmarks 3 --kernel linear -o l.riesz", "does not vanish");
    place.good("prefer fit items.csv duels.csv --landmarks 5 -o l.riesz");
    place.good("prefer fit items.csv duels.csv --model linear -o n.riesz");
    place.bad(
        "prefer fit items.csv duels.csv --model linear --home venue -o n.riesz",
        "--model linear cannot be used",
    );
    place.bad("prefer predict l.riesz items.csv duels.csv --home venue", "fitted without --home");
}

/// Absent contexts are properties, and coalitions of many properties are sampled.
#[test]
fn absent_contexts_are_explained() {
    let place = with_players();
    let duel = |k: usize| {
        let (l, r) = players(k);
        let outdoors = k.is_multiple_of(2);
        let winner = if (l * 7 % 10 > r * 7 % 10) == outdoors { "left" } else { "right" };
        format!("p{l},p{r},{winner},{}\n", if outdoors { "outdoors" } else { "indoors" })
    };
    let duels: String = (0..60).map(duel).collect();
    place.write("duels.csv", format!("left,right,outcome,place\n{duels}"));
    place.good("prefer fit items.csv duels.csv --contexts place --no-tuning -o m.riesz");
    place.write("places.csv", "place\noutdoors\nindoors\nindoors\n");
    let contexts = "--absent-contexts places.csv";
    for game in [
        "contexts",
        "contexts --context-game observational --conditional-ridge 0.1",
        "observational --conditional-ridge 0.1 --context-game observational --target-std-error 0.5",
        "independent --target-std-error 0.5",
    ] {
        let command =
            format!("prefer explain m.riesz items.csv duels.csv {contexts} --game {game} -o why.json");
        let (_, err) = place.good(&command);
        assert_eq!(err.contains("estimated"), game.contains("target"), "{game}: {err}");
        let explanation = read(place.read("why.json").as_bytes()).unwrap().explanation;
        assert!(explanation.players.iter().any(|player| player.name == "place"), "{game}");
    }
    for (command, message) in [
        ("--game contexts", "--absent-contexts FILE"),
        ("--game independent --context-game observational", "--absent-contexts"),
        ("--game functional --coalitions 100", "value coalitions"),
        ("--game observational --conditional-landmarks 3 --cg-tol 1e-6", "cannot be used"),
        ("--game independent --conditional-landmarks 3", "not used in this game"),
    ] {
        place.bad(&format!("prefer explain m.riesz items.csv duels.csv {command} -o why.json"), message);
    }
}

/// Returns the explanation in a file after checking that it is valid and its certificate holds.
fn saved_explanation(place: &Place, file: &str) -> riesz::Explanation {
    let explanation = read(place.read(file).as_bytes()).unwrap().explanation;
    explanation.validate().unwrap();
    assert!(explanation.certificate().unwrap().holds);
    explanation
}

#[test]
fn means_over_duels_are_explanations() {
    let place = circle();
    place.good("prefer fit items.csv duels.csv --no-tuning -o m.riesz");
    // All duels of one item, one by one, and their mean.
    let against: String = (1..9).map(|i| format!("i0,i{i}\n")).collect();
    place.write("all.csv", format!("left,right\n{against}"));
    place.good("prefer explain m.riesz items.csv all.csv -o each.json");
    place.good("prefer explain m.riesz items.csv --left i0 --against all -o mean.json");
    let (separate, mean) = (saved_explanation(&place, "each.json"), saved_explanation(&place, "mean.json"));
    assert_eq!((separate.rows(), mean.rows()), (8, 1));
    let average = |value: &dyn Fn(usize) -> f64| (0..8).map(value).sum::<f64>() / 8.0;
    for k in 0..3 {
        assert!((mean.values[k] - average(&|i| separate.values[i * 3 + k])).abs() < 1e-12, "{k}");
        assert!((mean.data.get(0, k) - average(&|i| separate.data.get(i, k))).abs() < 1e-12, "{k}");
    }
    let duel = &mean.duels.as_ref().unwrap()[0];
    assert_eq!((duel.left.as_str(), duel.right.as_str(), duel.win_probability), ("i0", "8 items", None));
    // Opponents from a file.
    place.write("some.csv", "name\ni3\ni1\n");
    place.good("prefer explain m.riesz items.csv --left i0 --against some.csv -o some.json");
    let subset = saved_explanation(&place, "some.json");
    assert!((subset.values[0] - (separate.values[0] + separate.values[6]) / 2.0).abs() < 1e-12);
    let (words, _) = place.good("prefer explain m.riesz items.csv --left i0 --against some.csv");
    assert!(words.starts_with("i0 beats a random one of 2 others"), "{words}");
    // Duels from the winners' side, on whichever side the table has them; ties do not count.
    place.write("won.csv", "winner,loser\ni0,i1\ni4,i5\n");
    place.write("turned.csv", "left,right,outcome\ni1,i0,right\ni4,i5,left\ni7,i2,tie\n");
    place.good("prefer explain m.riesz items.csv won.csv --mean left -o won.json");
    place.good("prefer explain m.riesz items.csv turned.csv --mean winner -o turned.json");
    let (won, reversed) = (saved_explanation(&place, "won.json"), saved_explanation(&place, "turned.json"));
    for (a, b) in won.values.iter().zip(&reversed.values) {
        assert!((a - b).abs() < 1e-12, "{a} {b}");
    }
    assert_eq!(reversed.duels.as_ref().unwrap()[0].name(), "winners against losers");
    place.good("plot waterfall mean.json -o p.svg");
    assert!(place.read("p.svg").contains("Waterfall of i0 against 8 items"));
    place.bad("prefer explain m.riesz items.csv all.csv --mean winner -o w.json", "there are no outcomes");
    place.bad(
        "prefer explain m.riesz items.csv --left i0 --against all --game paired --covariance -o w.json",
        "is not kept",
    );
    place.bad("prefer explain m.riesz items.csv --left i0 --right i1 --against all", "cannot be used with");
    place.write("strangers.csv", "name\nx\n");
    place.bad("prefer explain m.riesz items.csv --left i0 --against strangers.csv", "there is no item 'x'");
}

#[test]
fn duels_of_bags_average_over_members() {
    let place = circle();
    place.write(
        "members.csv",
        "bag,item,weight\nA,i0,1\nA,i1,3\nB,i3,1\nB,i4,1\nC,i6,1\nC,i7,1\nD,i2,1\nD,i8,2\n",
    );
    place.write("games.csv", "winner,loser\nA,B\nB,C\nC,A\nA,D\nD,B\n");
    let (_, err) = place.good("prefer fit items.csv games.csv --members members.csv --no-tuning -o b.riesz");
    assert!(err.contains("5 duels (5 pairs met), 4 bags, one connected component"), "{err}");
    let why = "prefer explain b.riesz items.csv --members members.csv --left A --right B";
    place.good(&format!("{why} -o bags.json"));
    place.write("pairs.csv", "left,right\ni0,i3\ni0,i4\ni1,i3\ni1,i4\n");
    place.good("prefer explain b.riesz items.csv pairs.csv -o pairs.json");
    let (bags, pairs) = (saved_explanation(&place, "bags.json"), saved_explanation(&place, "pairs.json"));
    let shares = [0.125, 0.125, 0.375, 0.375];
    for k in 0..3 {
        let mean: f64 = (0..4).map(|i| shares[i] * pairs.values[i * 3 + k]).sum();
        assert!((bags.values[k] - mean).abs() < 1e-12, "{k}");
    }
    // The explained value is the prediction, with its standard deviation.
    let (table, _) = place.good("prefer predict b.riesz items.csv --members members.csv --left A --right B");
    let cells: Vec<f64> =
        table.lines().nth(1).unwrap().split(',').skip(2).map(|v| v.parse().unwrap()).collect();
    let duel = &bags.duels.as_ref().unwrap()[0];
    let win_probability = duel.win_probability.unwrap();
    assert!((cells[0] - bags.predictions[0]).abs() < 1e-12 && duel.name() == "A against B");
    assert!(
        (cells[2] - win_probability.probability).abs() < 1e-12
            && (cells[5] - win_probability.probability_better).abs() < 1e-12
    );
    let (words, _) = place.good(why);
    assert!(words.starts_with("A beats B with probability 0."), "{words}");
    // With all items as landmarks the log odds and their values are the same, in a file without a posterior.
    let fit = "prefer fit items.csv games.csv --members members.csv --no-tuning --landmarks";
    place.good(&format!("{fit} all -o l.riesz"));
    let (table, note) =
        place.good("prefer predict l.riesz items.csv --members members.csv --left A --right B");
    let log_odds: f64 = table.lines().nth(1).unwrap().split(',').nth(2).unwrap().parse().unwrap();
    assert!((log_odds - cells[0]).abs() < 1e-5 && note.contains("holds no posterior"), "{log_odds} {note}");
    place.good(&format!("{} -o landmarks.json", why.replace("b.riesz", "l.riesz")));
    let landmarks = saved_explanation(&place, "landmarks.json");
    assert!(landmarks.values.iter().zip(&bags.values).all(|(a, b)| (a - b).abs() < 1e-5));
    place.good(&format!("{fit} 3 -o l.riesz"));
    place.bad(&format!("{fit} 3 --home winner -o w.riesz"), "--members cannot be used with --home");
    let fit = "prefer fit items.csv games.csv -o w.riesz --members";
    place.bad(&format!("{fit} members.csv --ability"), "--members cannot be used with");
    place.bad(&format!("{fit} items.csv"), "members needs the columns 'bag' and 'item'");
    place.write("m.csv", "bag,item\nA,i0\nB,x\n");
    place.bad(&format!("{fit} m.csv"), "members include items that");
    place.write("m.csv", "bag,item\nA,i0\nB,i1\n");
    place.bad(&format!("{fit} m.csv"), "duels include bags that");
    place.write("m.csv", "bag,item,weight\nA,i0,-1\n");
    place.bad(&format!("{fit} m.csv"), "weights are positive");
    place.bad(
        "prefer predict b.riesz items.csv --members members.csv --left A --right E",
        "there is no bag 'E'",
    );
}

#[test]
fn abilities_and_unseen_users_are_modelled() {
    let place = with_players();
    // Thrifty judges prefer the lower numbers; p3 beats everybody regardless of its number.
    let duel = |k: usize| {
        let (l, r) = players(k);
        let judge = ["ann", "bob"][k % 2];
        let better = ((l * 7 % 10 < r * 7 % 10) == (judge == "ann") || l == 3) && r != 3;
        format!("p{l},p{r},{},{judge}\n", if better { "left" } else { "right" })
    };
    let duels = (0..60).map(duel).collect::<String>();
    place.write("duels.csv", format!("left,right,outcome,judge\n{duels}"));
    place.good(
        "prefer fit items.csv duels.csv --model utility --ability --users judge --no-tuning -o m.riesz",
    );
    let row = |words: &str| -> Vec<f64> {
        let (table, _) = place.good(&format!("prefer predict m.riesz {words}"));
        table.lines().nth(1).unwrap().split(',').skip(2).map(|v| v.parse().unwrap()).collect()
    };
    let prediction = |who: &str| row(&format!("items.csv --left p0 --right p7 --context judge={who}"));
    assert!(prediction("ann")[0] > 0.5 && prediction("bob")[0] < -0.5);
    // The prediction for an unknown judge is between the others, with larger uncertainty; also from a table.
    let new = prediction("carla");
    assert!(
        new[0] < prediction("ann")[0]
            && new[0] > prediction("bob")[0]
            && new[1] > prediction("ann")[1] - 1e-9,
        "{new:?}"
    );
    place.write("ask.csv", "left,right,judge\np0,p7,dora\n");
    assert_eq!(row("items.csv ask.csv"), new);
    // p3 is better than its number; another item with the same number is not.
    place.write("others.csv", "name,skill\np3,1\nstranger,1\np5,5\n");
    let known = row("others.csv --left p3 --right p5 --context judge=bob");
    let other = row("others.csv --left stranger --right p5 --context judge=bob");
    assert!(known[0] > other[0] + 0.2 && known[1] < other[1], "{known:?} {other:?}");
    let (words, _) =
        place.good("prefer explain m.riesz items.csv --left p3 --right p7 --context judge=ann --game paired");
    assert!(words.contains("  ability ") && words.contains("  skill "), "{words}");
    place.write("named.csv", "name,ability\np0,1\np1,2\n");
    place.write("two.csv", "winner,loser\np0,p1\n");
    place.bad(
        "prefer fit named.csv two.csv --ability -o w.riesz",
        "a column 'ability', a name that the model needs itself",
    );
    place.bad(
        "prefer fit items.csv duels.csv --model linear --ability -o w.riesz",
        "cannot be used with --home, --ability",
    );
    place.good(
        "prefer evaluate items.csv duels.csv --ability --users judge --models utility,coin --repeats 2",
    );
}

/// A model is ranked without its tables, and each refusal has its remedy.
#[test]
fn saved_models_are_ranked() {
    let place = with_players();
    let duel = |k: usize| {
        let (l, r) = players(k);
        format!(
            "p{l},p{r},{},{}\n",
            if l * 7 % 10 > r * 7 % 10 { "left" } else { "right" },
            ["ann", "bob"][k % 2]
        )
    };
    let duels = (0..60).map(duel).collect::<String>();
    place.write("duels.csv", format!("left,right,outcome,judge\n{duels}"));
    place.good("prefer fit items.csv duels.csv --no-tuning -o m.riesz");
    let (from_model, _) = place.good("prefer rank m.riesz items.csv --samples 64");
    let (from_tables, _) = place.good("prefer rank items.csv duels.csv --no-tuning --samples 64");
    assert_eq!(from_model, from_tables);
    estimates_lie_in_their_intervals(&from_model);
    // Of 10 players with the skills 0 to 9 the best one is p7.
    let (text, _) = place.good("prefer rank m.riesz items.csv --samples 64 --format text");
    let first: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
    assert!(
        text.starts_with("rank  95 % interval  item") && first[0] == "1" && first.contains(&"p7"),
        "{text}"
    );
    assert!(text.contains("from 64 samples (standard error at most 0.0625)"), "{text}");
    place.bad("prefer rank m.riesz", "does not hold the items' names: give the table of items too");
    place.bad("prefer rank m.riesz items.csv --ability", "this model is fitted");
    place.good("prefer fit items.csv duels.csv --no-tuning --no-posterior -o mean.riesz");
    place.bad("prefer rank mean.riesz items.csv", "ranks need a model of duels with the posterior");
    place.good("prefer fit items.csv duels.csv --no-tuning --contexts judge -o c.riesz");
    place.bad("prefer rank c.riesz items.csv", "fitted to duels in contexts ('judge')");
    place.good("prefer fit items.csv duels.csv --no-tuning --users judge -o u.riesz");
    let (users, _) = place.good("prefer rank u.riesz items.csv --samples 64");
    assert!(users.starts_with("user,item,rank") && users.lines().count() == 21, "{users}");
    place.bad("prefer rank u.riesz items.csv --plot l.svg", "one for each user");
    place.bad("prefer predict u.riesz items.csv --left p1 --right p2", "give --user NAME");
    place.bad("prefer predict m.riesz items.csv --left p1 --right p2 --user ann", "fitted without users");
    // Each new item has an ability of its own.
    place.good("prefer fit items.csv duels.csv --no-tuning --ability -o a.riesz");
    place.write("new.csv", "name,skill\np1,1\nx,2\ny,3\n");
    let (new, _) = place.good("prefer rank a.riesz new.csv");
    assert!(new.lines().count() == 4 && new.contains("x,") && new.contains("y,"), "{new}");
    assert_eq!(place.good("prefer rank a.riesz").0.lines().count(), 11);
    place.bad(
        "prefer fit items.csv duels.csv --model bradley-terry --ability -o w.riesz",
        "use --model utility",
    );
}

#[test]
fn evaluation_splits_by_time_and_by_context() {
    let place = circle();
    let rows: String = place
        .read("duels.csv")
        .lines()
        .skip(1)
        .enumerate()
        .map(|(i, line)| format!("{line},2024-{:02}-01,{},s{}\n", i % 12 + 1, i % 12, i % 3))
        .collect();
    place.write("dated.csv", format!("winner,loser,day,week,season\n{rows}"));
    let table = |words: &str| {
        place.good(&format!(
            "prefer evaluate items.csv dated.csv --ignore size --models generalised,coin --no-tuning {words}"
        ))
    };
    // Dates behave like numbers; there is one split, so that nothing varies.
    let (by_day, err) = table("--split time=day");
    assert_eq!(by_day, table("--split time=week").0);
    assert!(
        by_day.starts_with("model,accuracy,auc,log_loss,log_loss_difference,log_loss_difference_std_error\n")
            && err.contains("one split"),
        "{by_day}{err}"
    );
    let (seasons, _) = table("--split context=season --repeats 3");
    assert!(seasons.starts_with("model,accuracy,accuracy_std"), "{seasons}");
    let evaluate = "prefer evaluate items.csv dated.csv --models coin --split";
    place.bad(&format!("{evaluate} time=winner"), "times are numbers, or dates");
    place.bad(&format!("{evaluate} time=year"), "there is no column 'year'");
    place.bad(&format!("{evaluate} time"), "time=COLUMN");
    place.bad("prefer evaluate items.csv duels.csv --split context=winner --test 0", "share of the test");
}

#[test]
fn rankings_and_clusters_are_drawn() {
    let place = circle();
    let rank = "prefer rank items.csv duels.csv --ignore size --samples 100 --cycles 3 --plot";
    place.good(&format!("{rank} ladder.svg -o ranks.csv"));
    let ladder = place.read("ladder.svg");
    assert!((0..9).all(|i| ladder.contains(&format!(">i{i}</text>"))) && ladder.contains("cycles of three"));
    place.good(&format!("{rank} ladder.png --max-display 4 -o ranks.csv"));
    assert!(std::fs::read(place.path("ladder.png")).unwrap().starts_with(b"\x89PNG"));
    place.good(
        "prefer cluster items.csv duels.csv --ignore size --method covariates --clusters 2 --no-tuning \
         --plot matrix.svg -o c.csv",
    );
    let matrix = place.read("matrix.svg");
    assert!(
        matrix.contains("cluster 2")
            && matrix.contains("Who beats whom")
            && matrix.matches("<rect").count() > 72
    );
    place.bad(&format!("{rank} ladder.jpg"), "are written as .svg or .png");
    place.bad("prefer cluster items.csv duels.csv --plot m.txt", "are written as .svg or .png");
}

/// Returns the numbers of a table's column.
fn column(table: &str, name: &str) -> Vec<f64> {
    let position = table.lines().next().unwrap().split(',').position(|title| title == name).unwrap();
    table.lines().skip(1).map(|line| line.split(',').nth(position).unwrap().parse().unwrap()).collect()
}

#[test]
fn probabilities_with_a_margin_of_ties_lie_in_their_intervals() {
    let place = with_players();
    let duel = |k: usize| {
        let (l, r) = players(k);
        let (a, b) = (l * 7 % 10, r * 7 % 10);
        let outcome = if a.abs_diff(b) < 5 {
            "tie"
        } else if a > b {
            "left"
        } else {
            "right"
        };
        format!("p{l},p{r},{outcome}\n")
    };
    let duels = (0..40).map(duel).collect::<String>();
    place.write("duels.csv", format!("left,right,outcome\n{duels}"));
    place.good("prefer fit items.csv duels.csv --ties model --hyperparameter-samples 0 -o m.riesz");
    let (table, _) = place.good("prefer predict m.riesz items.csv --left p7");
    estimates_lie_in_their_intervals(&table);
    let (other, _) = place.good("prefer predict m.riesz items.csv duels.csv");
    estimates_lie_in_their_intervals(&other);
    let values = |name: &str| column(&table, name);
    // g exceeds the log odds of a win by δ, for all duels.
    let margins: Vec<f64> = values("advantage").iter().zip(values("log_odds")).map(|(g, l)| g - l).collect();
    assert!(margins[0] > 0.5 && margins.iter().all(|m| (m - margins[0]).abs() < 1e-9), "{margins:?}");
    for ((low, high), (mean, sd)) in values("probability_low")
        .iter()
        .zip(values("probability_high"))
        .zip(values("log_odds").iter().zip(values("log_odds_std")))
    {
        let sigma = |g: f64| 1.0 / (1.0 + (-g).exp());
        assert!(
            (low - sigma(mean - 1.96 * sd)).abs() < 1e-4 && (high - sigma(mean + 1.96 * sd)).abs() < 1e-4
        );
    }
    // The probabilities of the two sides and a tie sum to 1.
    let (swapped, _) = place.good("prefer predict m.riesz items.csv --left p0 --right p7");
    let (forward, _) = place.good("prefer predict m.riesz items.csv --left p7 --right p0");
    let total = column(&forward, "probability")[0]
        + column(&forward, "probability_tie")[0]
        + column(&swapped, "probability")[0];
    assert!((total - 1.0).abs() < 1e-9, "{total}");
    let (words, _) = place.good("prefer explain m.riesz items.csv --left p7 --right p0");
    assert!(
        words.contains("they tie with probability") && words.contains("advantage (log odds of a win"),
        "{words}"
    );
    let (ranks, _) = place.good("prefer rank items.csv duels.csv --samples 40 --ties model");
    estimates_lie_in_their_intervals(&ranks);
}

#[test]
fn tables_of_arena_votes_need_no_options() {
    let place = Place::new();
    let votes = ["a,b,model_a", "b,c,tie (bothbad)", "c,a,model_b", "a,c,model_a", "b,a,tie", "c,b,model_b"];
    let rows = |end: &str| votes.iter().map(|vote| format!("{vote}{end}\n")).collect::<String>();
    place.write("arena.csv", format!("model_a,model_b,winner\n{}", rows("")));
    place.write("votes.csv", format!("one,other,vote,judge\n{}", rows(",j")));
    let rank = "prefer rank votes.csv --sides one,other --outcome vote --samples 64";
    assert_eq!(place.good("prefer rank arena.csv --samples 64").0, place.good(rank).0);
}

/// A leaderboard of items with names only, from each notation of outcomes.
#[test]
fn outcomes_are_read_in_all_notations() {
    let place = Place::new();
    let ends: Vec<(&str, &str, f64)> = vec![
        ("ann", "bob", 1.0),
        ("bob", "cid", 1.0),
        ("cid", "ann", 0.0),
        ("bob", "ann", 1.0),
        ("cid", "bob", 0.5),
        ("ann", "cid", 1.0),
        ("cid", "ann", 1.0),
    ];
    let table = |words: [&str; 3], name: bool| -> String {
        let line = |(l, r, won): &(&str, &str, f64)| {
            let word = match *won {
                1.0 if name => *l,
                0.0 if name => *r,
                1.0 => words[0],
                0.0 => words[1],
                _ => words[2],
            };
            format!("{l},{r},{word}\n")
        };
        format!("one,other,end\n{}", ends.iter().map(line).collect::<String>())
    };
    let rank = "prefer rank d.csv --samples 64 --sides one,other";
    place.write("d.csv", table(["left", "right", "tie"], false));
    let (expected, err) = place.good(&format!("{rank} --outcome end"));
    assert!(
        err.contains("7 duels (3 pairs met), 3 items") && err.contains("the items have only names"),
        "{err}"
    );
    assert!(expected.starts_with("item,rank,rank_low,rank_high,utility") && expected.lines().count() == 4);
    estimates_lie_in_their_intervals(&expected);
    for words in [
        ["H", "A", "D"],
        ["W", "L", "D"],
        ["win", "loss", "draw"],
        ["model_a", "model_b", "tie (bothbad)"],
        ["1", "0", "0.5"],
        ["1-0", "0-1", "1/2-1/2"],
        ["1-0", "0-1", "½-½"],
        ["3-1", "0-2", "1-1"],
        ["1", "-1", "0"],
        ["1", "2", "X"],
    ] {
        place.write("d.csv", table(words, false));
        assert_eq!(place.good(&format!("{rank} --outcome end")).0, expected, "{words:?}");
    }
    place.write("d.csv", table(["", "", "draw"], true));
    assert_eq!(place.good(&format!("{rank} --outcome end --ability")).0, expected);
    // Scores, and counts of wins.
    let score = |(l, r, won): &(&str, &str, f64)| format!("{l},{r},{},{}\n", 1.0 + won, 2.0 - won);
    place.write("d.csv", format!("one,other,here,there\n{}", ends.iter().map(score).collect::<String>()));
    assert_eq!(place.good(&format!("{rank} --scores here,there")).0, expected);
    let counts = "one,other,w,l,t\nann,bob,1,1,0\nbob,cid,1,0,1\ncid,ann,1,2,0\n";
    place.write("d.csv", counts);
    let (counted, err) = place.good(&format!("{rank} --wins w,l,t"));
    assert_eq!(counted, expected);
    assert!(err.contains("7 duels (3 pairs met)"), "{err}");
    // A table of names is a table of items without columns.
    place.write("names.csv", "name\nann\nbob\ncid\n");
    assert_eq!(
        place.good(&rank.replace("d.csv", "names.csv d.csv").replace("--sides", "--wins w,l,t --sides")).0,
        expected
    );
    place.write("d.csv", table(["left", "right", "maybe"], false));
    let message = "row 5 of column 'end' is 'maybe': the outcome of a duel is left, right or tie; win";
    place.bad(&format!("{rank} --outcome end"), message);
    place.write("d.csv", "one,other,end\nx,y,a\ny,x,tie\n");
    place.bad(
        &format!("{rank} --outcome end"),
        "row 1 of column 'end' is 'a': the column's other cells do not show",
    );
    place.bad("prefer rank d.csv --sides one,other --scores here", "two columns, separated by a comma");
    place.write("d.csv", table(["left", "right", "tie"], false));
    place.bad("prefer cluster d.csv --sides one,other --outcome end", "these items have only names");
}

/// Seven wins to three: a difference of log(7/3), with a standard error of √(1/7 + 1/3).
#[test]
fn counts_of_wins_equal_repeated_duels() {
    let place = Place::new();
    place.write("agg.csv", "player_1,player_2,wins_1,wins_2\nModel1,Model2,7,3\n");
    place.write(
        "long.csv",
        format!("winner,loser\n{}{}", "Model1,Model2\n".repeat(7), "Model2,Model1\n".repeat(3)),
    );
    place.good("prefer fit agg.csv --sides player_1,player_2 --wins wins_1,wins_2 -o a.riesz");
    place.good("prefer fit long.csv -o l.riesz");
    let odds = |model: &str| place.good(&format!("prefer predict {model} --left Model1 --right Model2")).0;
    assert_eq!(odds("a.riesz"), odds("l.riesz"));
    let advantage = column(&odds("a.riesz"), "log_odds")[0];
    assert!(advantage > 0.1 && advantage < (7.0_f64 / 3.0).ln(), "{advantage}");
    place.write("ask.csv", "left,right\nModel2,Model1\n");
    let (table, _) = place.good("prefer predict a.riesz ask.csv");
    assert!((column(&table, "log_odds")[0] + advantage).abs() < 1e-9);
    estimates_lie_in_their_intervals(&table);
    place.write("new.csv", "left,right\nModel2,Model3\n");
    place.bad("prefer predict a.riesz new.csv", "lacks: 'Model3'");
    place.bad("prefer fit agg.csv --sides player_1,player_2 --wins wins_1 -o b.riesz", "two columns of wins");
}

/// Teams with names only, with a home advantage and ties; a column names the home team.
#[test]
fn teams_without_properties_have_a_home_and_ties() {
    let place = Place::new();
    let teams = ["A", "B", "C", "D"];
    let game = |k: usize| {
        let (h, a) = (k % 4, (k + 1 + k / 4 % 3) % 4);
        let goals =
            (2 + (3 - h) / 2 + usize::from(k % 5 < 2), 1 + (3 - a) / 2 + usize::from(k.is_multiple_of(3)));
        format!("{},{},{},{}\n", teams[h], teams[a], goals.0, goals.1)
    };
    let games = (0..24).map(game).collect::<String>();
    place.write("games.csv", format!("home_team,away_team,home_goals,away_goals\n{games}"));
    let read =
        "games.csv --sides home_team,away_team --scores home_goals,away_goals --home home_team --ties model";
    place.good(&format!("prefer fit {read} -o m.riesz"));
    let prediction =
        |side: &str| place.good(&format!("prefer predict m.riesz --left A --right B --at-home {side}")).0;
    assert!(column(&prediction("left"), "probability")[0] > column(&prediction("right"), "probability")[0]);
    estimates_lie_in_their_intervals(&prediction("none"));
    let (ranks, _) = place.good(&format!("prefer rank {read} --samples 64"));
    assert!(ranks.lines().nth(1).unwrap().starts_with("A,1,"), "{ranks}");
    estimates_lie_in_their_intervals(&ranks);
    let (scores, _) =
        place.good(&format!("prefer evaluate {read} --repeats 2 --models utility,bradley-terry,coin"));
    assert_eq!(scores.lines().count(), 4, "{scores}");
}

#[test]
fn duels_without_an_outcome_are_dropped_on_request() {
    let place = Place::new();
    place.write("p.csv", "name,x\nAnn,1\nBob,2\nCid,3\n");
    place.write("d.csv", "left,right,outcome\nAnn,Bob,left\nBob,Cid,\nAnn,Cid,right\nCid,Ann,left\n");
    place.bad("prefer fit p.csv d.csv --no-tuning -o m.riesz", "row 2 of column 'outcome' is empty");
    place.bad("prefer fit p.csv d.csv --no-tuning -o m.riesz", "--missing drop");
    let (_, err) = place.good("prefer fit p.csv d.csv --no-tuning --missing drop -o m.riesz");
    assert!(
        err.contains("1 duels without an outcome were left out") && err.contains("3 duels (2 pairs met)"),
        "{err}"
    );
    place.good("prefer predict m.riesz p.csv d.csv");
    place.good("prefer explain m.riesz p.csv d.csv --mean winner -o w.json");
    assert_eq!(saved_explanation(&place, "w.json").duels.unwrap()[0].name(), "winners against losers");
}

/// Commands have no options that could never succeed.
#[test]
fn commands_offer_only_applicable_options() {
    let place = Place::new();
    let help = |command: &str| place.good(&format!("prefer {command} --help-all")).0;
    for option in ["--contexts", "--landmarks", "--context-landmarks"] {
        assert!(!help("rank").contains(option) && !help("cluster").contains(option), "{option}");
        assert!(help("fit").contains(option) && help("evaluate").contains(option), "{option}");
    }
    for option in ["--ability", "--home", "--ties"] {
        assert!(help("rank").contains(option) && !help("cluster").contains(option), "{option}");
    }
    assert!(help("rank").contains("--users <COL>") && !help("cluster").contains("--users"));
    for option in ["--weight", "--drop-self", "--wins", "--contexts"] {
        assert!(
            !help("predict").contains(&format!("{option} "))
                && !help("explain").contains(&format!("{option} ")),
            "{option}"
        );
    }
    for command in ["report", "downscale map"] {
        let help = place.good(&format!("{command} --help-all")).0;
        assert!(!help.contains("--format") && !help.contains("--json"), "{command}");
    }
    let items = with_players();
    let duel = |k: usize| {
        let (l, r) = players(k);
        let outcome = if l * 7 % 10 > r * 7 % 10 || l == 3 { "left" } else { "right" };
        format!("p{l},p{r},{outcome},{}\n", ["left", "right", "none"][k % 3])
    };
    let duels = (0..40).map(duel).collect::<String>();
    items.write("duels.csv", format!("left,right,outcome,h\n{duels}"));
    for option in ["--ability", "--home h", "--ability --home h --ties model"] {
        let (table, err) = items.good(&format!("prefer rank items.csv duels.csv --samples 64 {option}"));
        estimates_lie_in_their_intervals(&table);
        assert!(table.lines().count() == 11 && err.contains("log marginal likelihood"), "{option}: {err}");
    }
}
