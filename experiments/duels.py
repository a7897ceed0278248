"""Winners, and the properties that decide, on the data sets of chapters 6 and 7 of Chau 2023 (tables 6.1
and 7.3, figures 7.4 to 7.6).

    python experiments/duels.py [chameleon|flatlizard|nfl|pokemon ...] --data FOLDER [--full]

FOLDER holds chameleon/items.csv and contests.csv, and the same files in flatlizard (from the R package
BradleyTerry2, https://cran.r-project.org/package=BradleyTerry2: rows of items with an id, pairs of winner
and loser), nfl/matches.csv and team_stats.csv (https://github.com/Chau999/SpectralRankingWithCovariates:
seasons since 2000), and pokemon/items.csv and combats.csv
(https://www.kaggle.com/datasets/terminus7/pokemon-challenge).

Splits keep the duels of a pair together. GPGP is the generalised model, PGP a utility model, nested the
sum of both. iso: one length scale for standardised columns, chosen by the evidence. Accuracy is that of
thresholded probabilities. Test duels are scored in both orders, so it is also the balanced accuracy, which
the source calls accuracy in table 7.3.

The source selects five of 18 statistics of NFL teams by BAHSIC, and names neither them nor the target. Here
they are points, yards per play, third downs, turnovers and time of possession, or the five that BAHSIC
selects for the share of won matches in training. Statistics of the season include the matches that are
predicted; those of the season before do not. Pokémon: separate length scales for the seven numbers, one for
the types and one for being legendary.

Full: 20 splits instead of 5 (NFL: 20 splits of 19 seasons instead of 2 of 4), 12 subsets of chameleons
instead of 6; Pokémon 40,000 duels and 250 landmarks instead of 8,000 and 100."""

import argparse
import pathlib
import time
import warnings

import numpy as np
import pandas as pd
from _figures import COLOURS, arguments, finish, panels, table
from rankable import contests
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GroupShuffleSplit

import riesz
from riesz.feature_selection import SelectHSIC
from riesz.kernels import RBF
from riesz.preference import PairClassifier, pair_groups

PROCESSES = {"GPGP": "generalised", "PGP": "utility", "nested": "nested"}
ABILITIES = {"Bradley-Terry": "bradley_terry", "linear": "linear"}
METHODS = [*PROCESSES, *ABILITIES, "PAIR-LOGREG"]
#: Numbers of table 6.1.
PUBLISHED = {
    "chameleon": {"GPGP": ".78 ± .06", "PGP": ".51 ± .09", "PAIR-LOGREG": ".71"},
    "flatlizard": {"GPGP": ".83 ± .06", "PGP": ".80 ± .09", "PAIR-LOGREG": ".77"},
    "nfl": {"GPGP": ".59 ± .03", "PGP": ".51 ± .02", "PAIR-LOGREG": ".65"},
}
STATISTICS = ["Pts/G", "Yds/P", "3rd Pct", "TO", "ToP/G"]
#: Coalitions of the 26 single columns of Pokémon.
COALITIONS = 1000
NUMBERS = ["HP", "Attack", "Defense", "Sp. Atk", "Sp. Def", "Speed", "Generation"]


def standardised(frame):
    return (frame - frame.mean()) / frame.std(ddof=0).replace(0, 1)


def scores(probability):
    """Accuracy, AUC and log loss of the probabilities that the winners win, with every duel in both
    orders. A probability of one half counts as half right."""
    mirrored, truth = np.concatenate([probability, 1 - probability]), np.repeat([1, 0], len(probability))
    right = ((probability > 0.5) + 0.5 * (probability == 0.5)).mean()
    return np.array(
        [right, roc_auc_score(truth, mirrored), log_loss(truth, np.clip(mirrored, 1e-12, 1 - 1e-12))]
    )


def fitted(name, items, duels, kernel, **settings):
    """The method's model, learnt from duels as (winner, loser), labels of items."""
    if name in PROCESSES:
        return riesz.PreferenceClassifier(PROCESSES[name], kernel=kernel, **settings).fit(items, duels)
    if name in ABILITIES:
        return riesz.PreferenceClassifier(ABILITIES[name]).fit(items, duels)
    return PairClassifier(LogisticRegression()).fit(items, duels)


def win_probabilities(name, model, items, duels):
    """The probabilities that the left items win."""
    sides = list(duels.T) if name == "Bradley-Terry" else [items.loc[side] for side in duels.T]
    return model.predict_proba(*sides)[:, 1]


def splits(duels, count, share=0.3):
    return GroupShuffleSplit(count, test_size=share, random_state=0).split(duels, groups=pair_groups(duels))


def cell(values, digits=3):
    return f"{np.mean(values):.{digits}f} ± {np.std(values):.{digits}f}"


def small(options, name):
    """Items as standardised numbers by label, and duels of labels."""
    items, _ = contests(options.data / name)
    text = items.select_dtypes(exclude="number").columns
    items = pd.get_dummies(items, columns=list(text), drop_first=True, dtype=float)
    return standardised(items), pd.read_csv(options.data / name / "contests.csv").to_numpy()


def compared(items, duels, count):
    """The scores of each method for each split, and the mean evidence of the processes."""
    results = {name: [] for name in METHODS}
    evidence = {name: [] for name in PROCESSES}
    for train, test in splits(duels, count):
        for name in METHODS:
            model = fitted(name, items, duels[train], RBF("median"))
            results[name].append(scores(win_probabilities(name, model, items, duels[test])))
            if name in PROCESSES:
                evidence[name].append(model.log_marginal_likelihood_value_)
    return {name: np.array(all_runs) for name, all_runs in results.items()}, evidence


def rows_of_table(name, results, evidence):
    rows = []
    for method in METHODS:
        accuracy, auc, loss = results[method].T
        evidence_cell = f"{np.mean(evidence[method]):.1f}" if method in evidence else "–"
        rows.append(
            [
                name,
                method,
                PUBLISHED[name].get(method, "–"),
                cell(accuracy),
                cell(auc),
                cell(loss),
                evidence_cell,
            ]
        )
    return rows


HEADER = ["set", "method", "published accuracy", "accuracy", "AUC", "log loss", "evidence"]


def animals(options, name, axis):
    """Table 6.1; for chameleons also the leak of table 7.3 and the sign of the jaws, for lizards the
    length scale."""
    items, duels = small(options, name)
    count = options.splits or (20 if options.full else 5)
    start = time.perf_counter()
    results, evidence = compared(items, duels, count)
    text = (
        f"\n\n{name}: {len(items)} items, {items.shape[1]} columns, {len(duels)} duels, {count} splits "
        f"70/30 by pair"
    )
    text += (
        f" ({time.perf_counter() - start:.0f} s)\n\n"
        + table(HEADER, rows_of_table(name, results, evidence))
        + "\n"
    )
    bars(axis, name, {method: runs[:, 0] for method, runs in results.items()})
    return text + (
        jaws(options, items, duels, count) if name == "chameleon" else profile(items, duels, count)
    )


def bars(axis, title, values):
    for i, runs in enumerate(values.values()):
        axis.bar(i, np.mean(runs), yerr=np.std(runs), color=COLOURS[i % len(COLOURS)])
    axis.set_xticks(range(len(values)), values, rotation=40, fontsize=7)
    axis.axhline(0.5, color="black", linewidth=0.6)
    axis.set_ylim(0.3, 1)
    axis.set_title(f"accuracy, {title}", fontsize=10)


def jaws(options, items, duels, count):
    """Scores with mirroring before the split and with splits by pair, and the correlation of the values of
    jl.res with its difference."""
    rng = np.random.default_rng(0)
    rows = []
    mirrored, won = np.vstack([duels, duels[:, ::-1]]), np.repeat([1.0, 0.0], len(duels))
    for name, published in (("GPGP", ".92 ± .07"), ("PGP", ".80 ± .07")):
        clean, torn = [], []
        for train, test in splits(duels, count, 0.2):
            clean.append(
                scores(
                    win_probabilities(
                        name, fitted(name, items, duels[train], RBF("median")), items, duels[test]
                    )
                )
            )
            order = rng.permutation(len(mirrored))
            train, test = np.split(order, [round(0.8 * len(order))])
            model = riesz.PreferenceClassifier(PROCESSES[name], kernel=RBF("median"))
            model.fit(items, mirrored[train], outcome=won[train])
            torn.append(((win_probabilities(name, model, items, mirrored[test]) > 0.5) == won[test]).mean())
        rows.append([name, published, cell(np.array(clean)[:, 0]), cell(torn)])
    text = (
        f"\nTable 7.3, {count} splits 80/20: mirrored duels split afterwards tell what they are tested on\n\n"
    )
    text += table(["method", "published", "by pair", "mirrored, then split"], rows)

    place = list(items.columns).index("jl.res")
    subsets = 12 if options.full else 6
    correlations = {"GPGP": [], "PGP": [], "linear": []}
    sizes = []
    for _ in range(subsets):
        subset = duels[rng.choice(len(duels), round(0.8 * len(duels)), replace=False)]
        first, second = items.loc[subset[:, 0]], items.loc[subset[:, 1]]
        difference = first["jl.res"].to_numpy() - second["jl.res"].to_numpy()
        for name in ("GPGP", "PGP"):
            values = fitted(name, items, subset, RBF("median")).explain(first, second).values
            correlations[name].append(np.corrcoef(values[:, place], difference)[0, 1])
            if name == "GPGP":
                sizes.append(np.abs(values).mean(axis=0))
        correlations["linear"].append(fitted("linear", items, subset, None).coef_[place])
    rows = [
        [
            name,
            published,
            cell(correlations[name], 2),
            f"{np.sum(np.array(correlations[name]) < 0)} of {subsets}",
        ]
        for name, published in (("GPGP", "negative"), ("PGP", "no pattern"), ("linear", "–"))
    ]
    text += (
        f"\n\nFigure 7.6: values of jl.res and its difference, winners first, {subsets} subsets of 80 %; of "
        f"the linear model its coefficient\n\n"
    )
    text += table(["model", "published", "correlation", "negative in"], rows)
    leading = sorted(zip(np.mean(sizes, axis=0), items.columns), reverse=True)[:3]
    return (
        text + "\n\nLargest under GPGP: " + ", ".join(f"{name} {size:.2f}" for size, name in leading) + "\n"
    )


def profile(items, duels, count):
    rows = []
    for scale in (1.0, 2.0, 4.0, 8.0):
        runs, evidence = [], []
        for train, test in splits(duels, count):
            model = fitted("GPGP", items, duels[train], RBF(scale), optimizer=None)
            runs.append(scores(win_probabilities("GPGP", model, items, duels[test])))
            evidence.append(model.log_marginal_likelihood_value_)
        accuracy, _, loss = np.array(runs).T
        rows.append([f"{scale:g}", cell(accuracy), cell(loss), f"{np.mean(evidence):.1f}"])
    text = "\nGPGP of lizards with the length scale kept, share 2.25\n\n"
    return text + table(["length scale", "accuracy", "log loss", "evidence"], rows) + "\n"


def season(statistics, matches, year, before):
    """Teams of a season, their 18 statistics of this season or the one before, and the matches: home, away,
    winner. Ties are left out."""
    teams = (
        statistics[statistics.season == (year - 1 if before else year)]
        .drop_duplicates("Team")
        .set_index("Team")
        .drop(columns=["season", "Rk", "G"])
    )
    games = matches[(matches.season == year) & (matches.score_home != matches.score_away)]
    games = games[games.team_home.isin(teams.index) & games.team_away.isin(teams.index)]
    return (
        standardised(teams).fillna(0.0),
        games[["team_home", "team_away"]].to_numpy(),
        (games.score_home > games.score_away).to_numpy(),
    )


def by_bahsic(teams, duels):
    """The five statistics that BAHSIC selects for the share of won duels."""
    share = pd.Series(np.repeat([1.0, 0.0], len(duels)), duels.T.ravel()).groupby(level=0).mean()
    selector = SelectHSIC(len(STATISTICS), method="backward").fit(teams.loc[share.index], share)
    return list(teams.columns[selector.get_support()])


def football(options, axis):
    folder = options.data / "nfl"
    statistics, matches = (
        pd.read_csv(folder / "team_stats.csv").dropna(subset=["Team"]),
        pd.read_csv(folder / "matches.csv"),
    )
    # Minutes are written as hours of a day, except for a few such as 33:60.
    clock = statistics["ToP/G"].astype(str).str.split(":")
    statistics["ToP/G"] = [24 * float(c[0]) if len(c) == 1 else float(c[0]) + float(c[1]) / 60 for c in clock]
    years = list(range(2000, 2019)) if options.full else [2002, 2007, 2012, 2017]
    count = options.splits or (20 if options.full else 2)
    rows, sided, advantages, text = [], {}, [], ""
    selected = {False: [], True: []}
    for before in (False, True):
        start = time.perf_counter()
        results = {name: [] for name in METHODS}
        evidence = {name: [] for name in PROCESSES}
        sided[before] = []
        used = [year for year in years if not before or year > 2000]
        for year in used:
            candidates, games, home_won = season(statistics, matches, year, before)
            teams = candidates[STATISTICS]
            duels = np.where(home_won[:, None], games, games[:, ::-1])
            season_results, season_evidence = compared(teams, duels, count)
            for name in METHODS:
                results[name].append(season_results[name])
            for name in PROCESSES:
                evidence[name] += season_evidence[name]
            for train, test in splits(duels, count):
                columns = by_bahsic(candidates, duels[train])
                selected[before] += columns
                for name in PROCESSES:
                    model = fitted(name, candidates[columns], duels[train], RBF("median"))
                    probability = win_probabilities(name, model, candidates[columns], duels[test])
                    results.setdefault(f"{name}, by BAHSIC", []).append(scores(probability)[None])
                model = riesz.PreferenceClassifier("nested", kernel=RBF("median"))
                model.fit(
                    teams, games[train], outcome=home_won[train].astype(float), home=["left"] * len(train)
                )
                home, away = (teams.loc[side] for side in games[test].T)
                probability = model.predict_proba(home, away, home="left")[:, 1]
                sided[before].append(scores(np.where(home_won[test], probability, 1 - probability)))
            if not before:
                model = riesz.PreferenceClassifier("nested", kernel=RBF("median"))
                model.fit(teams, games, outcome=home_won.astype(float), home=["left"] * len(games))
                team = teams.iloc[[0]]
                advantages.append(model.decision_function(team, team, home="left")[0])
        results = {name: np.vstack(runs) for name, runs in results.items()}
        which = "season before (clean)" if before else "same season (contains the test)"
        for row in rows_of_table("nfl", results, evidence):
            rows.append([which, row[1], "–" if before else row[2], *row[3:]])
        # Splits of one season share its matches; different seasons share none.
        years_apart = results["GPGP"][:, 0].reshape(len(used), count).mean(axis=1)
        error = years_apart.std(ddof=1) / np.sqrt(len(used))
        accuracy, auc, loss = np.array(sided[before]).T
        rows.append([which, "nested, home side", "–", cell(accuracy), cell(auc), cell(loss), "–"])
        for name in PROCESSES:
            accuracy, auc, loss = results[f"{name}, by BAHSIC"].T
            published = "–" if before else PUBLISHED["nfl"].get(name, "–")
            label = f"{name}, by BAHSIC"
            rows.append([which, label, published, cell(accuracy), cell(auc), cell(loss), "–"])
        text += (
            f"\n{which}: {len(used)} seasons, {count} splits 70/30 each, standard error of GPGP's mean "
            f"accuracy over seasons {error:.3f}, {time.perf_counter() - start:.0f} s"
        )
        if not before:
            bars(axis, "NFL", {name: results[name][:, 0] for name in METHODS})
    for before, names in selected.items():
        counts = pd.Series(names).value_counts(normalize=True).head(6) * len(STATISTICS)
        shares = ", ".join(f"{name} {share:.2f}" for name, share in counts.items())
        text += f"\nselected by BAHSIC, {'season before' if before else 'same season'}, in shares of splits: "
        text += shares
    text = "\n\nNFL, " + ", ".join(STATISTICS) + text + "\n\n" + table(HEADER, rows)
    n_positive = sum(advantage > 0 for advantage in advantages)
    text += (
        f"\n\nLog odds of being at home {cell(advantages, 2)}, positive in {n_positive} of {len(years)} "
        f"seasons."
    )
    return text + " Sampling error of an accuracy ± .055 a split (about 77 duels).\n"


def fighters(options):
    """Pokémon by number, columns as numbers, and duels as (winner, loser)."""
    items = pd.read_csv(options.data / "pokemon" / "items.csv").set_index("id")
    types = pd.get_dummies(items["Type 1"], dtype=float)
    types = types.add(pd.get_dummies(items["Type 2"], dtype=float), fill_value=0.0).clip(upper=1).fillna(0.0)
    frame = pd.concat(
        [standardised(items[NUMBERS].astype(float)), items["Legendary"].astype(float), types], axis=1
    )
    _, duels = contests(options.data / "pokemon")
    return items, frame, list(types.columns), duels


def faster(items, duels):
    """The left items' lead in speed, and their probability to win if speed decides: 0, 1, or ½ for ties."""
    ahead = items.Speed.loc[duels[:, 0]].to_numpy() - items.Speed.loc[duels[:, 1]].to_numpy()
    return ahead, 0.5 + 0.5 * np.sign(ahead)


def rivals(items, frame, train, test, kernel, settings):
    """The rows of the table of accuracies of the ``test`` duels, and the models of the ``train`` duels."""
    rows, models = [], {}
    ahead, probability = faster(items, test)
    known = scores(probability)
    differences = np.concatenate([ahead, -ahead])
    auc = roc_auc_score(np.repeat([1, 0], len(ahead)), differences)
    rows.append(["the faster wins", "–", float(known[0]), float(auc), "–", "0"])
    for name in ("Bradley-Terry", "linear", *PROCESSES, "boosting on pairs"):
        start = time.perf_counter()
        if name == "boosting on pairs":
            model = PairClassifier(HistGradientBoostingClassifier(max_iter=300, random_state=0)).fit(
                frame, train
            )
        else:
            model = fitted(name, frame, train, kernel, **(settings if name in PROCESSES else {}))
        result = scores(win_probabilities(name, model, frame, test))
        published = {"GPGP": ".86", "PGP": ".82"}.get(name, "–")
        rows.append([name, published, *map(float, result), f"{time.perf_counter() - start:.0f}"])
        models[name] = model
    return rows, models


def mean_sizes(models, frame, sample, background, types, axes):
    """Figure 7.4: mean sizes of the values of test duels."""
    first, second = (frame.loc[side] for side in sample.T)
    groups = {"types": types}
    rows = []
    for name in ("nested", "PGP"):
        for game in ("independent", "paired", "observational"):
            start = time.perf_counter()
            why = models[name].explain(first, second, background, game=game, groups=groups)
            size = dict(zip(why.feature_names, np.abs(why.values).mean(axis=0)))
            gap = np.abs(why.values.sum(axis=1) - models[name].decision_function(first, second)).max()
            leading = sorted(size, key=size.get, reverse=True)
            top_sizes = ", ".join(f"{player} {size[player]:.2f}" for player in leading[:5])
            rows.append(
                [
                    name,
                    game,
                    top_sizes,
                    f"{size['types']:.2f}",
                    f"{gap:.0e}",
                    f"{time.perf_counter() - start:.1f}",
                ]
            )
            if game == "independent":
                axis = axes[list(("nested", "PGP")).index(name)]
                axis.barh(leading[::-1], [size[player] for player in leading[::-1]], color=COLOURS[0])
                axis.set_title(f"mean |value|, {name}", fontsize=10)
                axis.tick_params(axis="y", labelsize=7)
    text = (
        f"\n\nFigure 7.4: {len(sample)} test duels, 200 background items, types one player; published: "
        f"speed and type first (GPM), type alone (UPM)\n\n"
    )
    return text + table(
        ["model", "game", "mean size of values", "types", "largest gap to the log odds", "seconds"], rows
    )


def single_columns(models, frame, sample):
    """Figure 7.4 in the game of the source: observational, every column a player, all items as background."""
    first, second = (frame.loc[side] for side in sample.T)
    rows = []
    for name in ("nested", "PGP"):
        start = time.perf_counter()
        why = models[name].explain(first, second, game="observational", n_coalitions=COALITIONS)
        size = dict(zip(why.feature_names, np.abs(why.values).mean(axis=0)))
        leading = sorted(size, key=size.get, reverse=True)
        top_sizes = ", ".join(f"{player} {size[player]:.2f}" for player in leading[:6])
        relative = why.std_error.mean() / np.abs(why.values).mean()
        rows.append([name, top_sizes, f"{relative:.2f}", f"{time.perf_counter() - start:.0f}"])
    text = (
        f"\n\nFigure 7.4, observational, {frame.shape[1]} single columns: {len(sample)} test duels, "
        f"{len(frame)} background items, {COALITIONS} coalitions\n\n"
    )
    return text + table(["model", "mean size of values", "mean standard error / mean size", "seconds"], rows)


def values_of_types(nested, items, frame, duels, background, types):
    """Figure 7.5: values of types in duels between two primary types."""
    rows = []
    primary = items["Type 1"]
    for kind, other, published in (("Water", "Fire", "on top"), ("Normal", "Psychic", "neutral")):
        kinds = np.column_stack([primary.loc[side].to_numpy() for side in duels.T])
        is_match = (kinds == [kind, other]).all(axis=1) | (kinds == [other, kind]).all(axis=1)
        chosen = np.flatnonzero(is_match)[:150]
        pairs = duels[chosen]
        won = kinds[chosen, 0] == kind
        pairs = np.where(won[:, None], pairs, pairs[:, ::-1])
        sides = [frame.loc[side] for side in pairs.T]
        for label, players in (
            ("types", {"types": types}),
            (
                f"{kind} + {other}",
                {
                    f"{kind} + {other}": [kind, other],
                    "other types": [t for t in types if t not in (kind, other)],
                },
            ),
        ):
            why = nested.explain(*sides, background, groups=players)
            value = why.values[:, list(why.feature_names).index(label)]
            low, high = value.mean() + np.array([-1.96, 1.96]) * value.std() / np.sqrt(len(value))
            interval = f"{value.mean():.2f} ({low:.2f} … {high:.2f})"
            rows.append(
                [
                    f"{kind} against {other}",
                    published,
                    len(value),
                    f"{won.mean():.2f}",
                    label,
                    interval,
                    f"{value.std():.2f}",
                ]
            )
    text = (
        "\n\nFigure 7.5: values of types for the first side (nested, independent), by primary types; the "
        "interval is that of the mean over duels\n\n"
    )
    return text + table(["duels", "published", "number", "won", "player", "mean value", "sd"], rows) + "\n"


def monsters(options, axes):
    items, frame, types, duels = fighters(options)
    train, test = next(splits(duels, 1, 0.2))
    rng = np.random.default_rng(0)
    sizes = (40_000, 250, 1500) if options.full else (8000, 100, 600)
    train, test = rng.permutation(train)[: sizes[0]], test if options.full else rng.permutation(test)[:4000]
    sample = duels[rng.permutation(test)[:150]]
    background = frame.iloc[rng.permutation(len(frame))[:200]]
    train, test = duels[train], duels[test]
    # Seven length scales of numbers, one of the types, one of being legendary.
    kernel = RBF([2.0] * 7, columns=NUMBERS) * RBF(2.0, columns=types) * RBF(2.0, columns=["Legendary"])
    settings = {"n_landmarks": sizes[1], "n_tuning_pairs": sizes[2], "random_state": 0}
    rows, models = rivals(items, frame, train, test, kernel, settings)
    text = (
        f"\n\nPokémon: {len(frame)} items, {len(train)} duels learnt, {len(test)} others, split by pair, "
        f"{sizes[1]} landmarks\n\n"
    )
    text += table(["method", "published (thresholded)", "accuracy", "AUC", "log loss", "seconds"], rows)
    text += mean_sizes(models, frame, sample, background, types, axes)
    text += single_columns(models, frame, test[rng.permutation(len(test))[:200]])
    return text + values_of_types(models["nested"], items, frame, test, background, types)


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "sets", nargs="*", metavar="set", help="chameleon, flatlizard, nfl, pokemon; by default all"
    )
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--splits", type=int, help="number of splits, for the animals and for each season")
    options = arguments(__doc__, (parser,))
    warnings.simplefilter("ignore", ConvergenceWarning)
    figure, axes = panels(5)
    text = "Duels: accuracy, AUC and log loss of test duels in both orders, ± standard deviation over splits"
    for i, name in enumerate(("chameleon", "flatlizard", "nfl", "pokemon")):
        if options.sets and name not in options.sets:
            continue
        if not (options.data / name).exists():
            text += f"\n\n{name} is not below {options.data}"
            continue
        if name == "pokemon":
            part = monsters(options, axes[3:])
        elif name == "nfl":
            part = football(options, axes[i])
        else:
            part = animals(options, name, axes[i])
        print(part, flush=True)
        text += part
    finish(options, "duels", figure, text)


if __name__ == "__main__":
    main()
