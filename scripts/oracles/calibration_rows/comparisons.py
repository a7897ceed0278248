"""Rows of preferences: log odds of duels, rankings, abilities and clusters."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pandas as pd
from calibration_designs import duels
from calibration_measures import Events, Intervals, Row, generator

import riesz
from riesz.kernels import RBF, Constant
from riesz.preference import rankability, spec_r

DUELS = {
    "log odds of known pairs": ("PreferenceClassifier.decision_function", "Duel.interval"),
    "log odds of new pairs": ("PreferenceClassifier.decision_function", "Duel.interval"),
    "probability of a win": ("PreferenceClassifier.predict_proba", "Duel.probability"),
    "which item is better": ("PreferenceClassifier.probability_better", "Duel.probability_better"),
}


def _fitted(design, **settings):
    model = riesz.PreferenceClassifier(random_state=0, **settings)
    return model.fit(design.X[: design.n_items], design.duels)


def with_true_kernel(design, **settings):
    """The utility model with the variance and the length scales of the drawn utility."""
    variance, length_scales = design.kernel
    model = riesz.PreferenceClassifier("utility", kernel=RBF([1.0, 1.0]), optimizer=None)
    # The kernel of a model without tuning is multiplied by the start value of the variance.
    start = model.fit(design.X[: design.n_items], design.duels).utility_variance_
    kernel = Constant(variance / start) * RBF(length_scales.tolist())
    return _fitted(design, model="utility", kernel=kernel, optimizer=None, **settings)


def log_odds(kind, n_duels, has_true_kernel=False, **settings):
    """Log odds, win probabilities and better items of pairs with and without duels."""

    def measure(seed):
        design = duels(kind, n_duels, seed)
        left, right = (design.X[design.pairs[:, side]] for side in (0, 1))
        oracle, oracle_std = None, {True: None, False: None}
        if design.kernel is not None:
            oracle = with_true_kernel(design)
            std = oracle.decision_function(left, right, return_std=True)[1]
            oracle_std = {is_known: std[design.is_known == is_known] for is_known in (True, False)}
        model = oracle if has_true_kernel else _fitted(design, **settings)
        mean, std = model.decision_function(left, right, return_std=True)
        truth, known = design.truth, design.is_known
        is_won = generator(seed, "outcomes").random(len(truth)) < 1 / (1 + np.exp(-truth))
        return {
            "log odds of known pairs": Intervals.from_normal(
                truth[known], mean[known], std[known], oracle_std[True]
            ),
            "log odds of new pairs": Intervals.from_normal(
                truth[~known], mean[~known], std[~known], oracle_std[False]
            ),
            "probability of a win": Events(model.predict_proba(left, right)[:, 1], is_won),
            "which item is better": Events(model.probability_better(left, right), truth > 0),
        }

    return measure


def ties(seed):
    """Duels with ties, which the model has as a third outcome."""
    design = duels("prior", 300, seed)
    rng = generator(seed, "ties")
    margin = rng.uniform(0.3, 1.0)
    outcomes = lambda g: np.select(
        [draw < 1 / (1 + np.exp(margin - g)), draw > 1 - 1 / (1 + np.exp(margin + g))], [1.0, 0.0], 0.5
    )
    draw = rng.random(300)
    pairs = design.duels
    outcome = outcomes(design.log_odds[pairs[:, 0], pairs[:, 1]])
    items = design.X[: design.n_items]
    model = riesz.PreferenceClassifier("utility", ties="model", random_state=0)
    model.fit(items, pairs, outcome=outcome)
    left, right = (design.X[design.pairs[:, side]] for side in (0, 1))
    mean, std = model.decision_function(left, right, return_std=True)
    stated = model.predict_proba(left, right)
    draw = rng.random(len(stated))
    later = outcomes(design.truth)
    return {
        "advantage of the left item": Intervals.from_normal(design.truth, mean, std),
        "probability of a win": Events(stated[:, 1], later == 1.0),
        "probability of a tie": Events(stated[:, 2], later == 0.5),
    }


RANKING = {
    "utilities": ("Rankability.utility_interval", "Rankability.elo", "rankability", "Rankability"),
    "ranks": ("Rankability.rank_interval",),
    "the best item": ("Rankability.probability_best",),
    "the Condorcet winner": ("Rankability.probability_condorcet",),
    "cyclic share": ("Rankability.cyclic_share_interval",),
    "cycles of three items": ("Rankability.cycles",),
}


def _true_ranking(log_odds):
    """Utilities, ranks and cyclic share of true log odds between items."""
    n = len(log_odds)
    utility = log_odds.sum(axis=1) / n
    gradient = utility[:, None] - utility
    share = ((log_odds - gradient) ** 2).sum() / (log_odds**2).sum()
    return utility, (-utility).argsort().argsort() + 1, share


def ranking(kind, n_duels, **settings):
    """Utilities, ranks and cycles of the items with duels."""

    def measure(seed):
        design = duels(kind, n_duels, seed)
        model = _fitted(design, **settings)
        n = design.n_items
        items = design.X[:n]
        boards = {level: rankability(model, items, level=level, random_state=0) for level in (0.95, 0.80)}
        true_log_odds = design.log_odds[:n, :n]
        utility, rank, share = _true_ranking(true_log_odds)
        cyclic_share = lambda level: boards[level].cyclic_share_interval[[0, 2]][:, None]
        board = boards[0.95]
        position = {label: k for k, label in enumerate(board.items)}
        beats = lambda a, b: true_log_odds[position[a], position[b]] > 0
        # A model that states no cycle gives each the probability 0; the first three items stand for them.
        stated = board.cycles or [(tuple(board.items[:3]), 0.0)]
        cycles = [(p, beats(a, b) and beats(b, c) and beats(c, a)) for (a, b, c), p in stated]
        return {
            "utilities": Intervals.from_function(utility, lambda level: boards[level].utility_interval.T),
            "ranks": Intervals.from_function(
                rank, lambda level: boards[level].rank_interval.T, is_discrete=True
            ),
            "the best item": Events(board.probability_best, rank == 1),
            "the Condorcet winner": Events(
                board.probability_condorcet, (true_log_odds > 0).sum(axis=1) == n - 1
            ),
            "cyclic share": Intervals.from_function(np.array([share]), cyclic_share),
            "cycles of three items": Events(*map(np.array, zip(*cycles))),
        }

    return measure


def abilities(seed):
    """Bradley and Terry's abilities, drawn from a normal distribution, from duels between 15 items."""
    rng = generator(seed, "abilities")
    truth = rng.normal(size=15)
    truth -= truth.mean()
    pairs = np.array([rng.choice(15, 2, replace=False) for _ in range(200)])
    is_won = rng.random(200) < 1 / (1 + np.exp(-(truth[pairs[:, 0]] - truth[pairs[:, 1]])))
    labels = np.array([f"item {k}" for k in range(15)])
    model = riesz.PreferenceClassifier("bradley_terry").fit(None, labels[pairs], outcome=is_won)
    board = {level: rankability(model, level=level, random_state=0) for level in (0.95, 0.80)}
    order = [list(board[0.95].items).index(label) for label in labels]
    utilities = lambda level: board[level].utility_interval[order].T
    ranks = lambda level: board[level].rank_interval[order].T
    # A utility is the mean log odds against all items, which is the ability.
    return {
        "abilities": Intervals.from_normal(
            truth,
            [model.abilities_[label] for label in labels],
            [model.abilities_std_[label] for label in labels],
        ),
        "utilities": Intervals.from_function(truth, utilities),
        "ranks": Intervals.from_function((-truth).argsort().argsort() + 1, ranks, is_discrete=True),
        "the best item": Events(board[0.95].probability_best[order], truth == truth.max()),
    }


def choices(seed):
    """Choices from sets of 4 items by softmax of a utility, and probabilities of choices from sets of 3."""
    design = duels("prior", 100, seed)
    rng = generator(seed, "choices")
    n, utility = design.n_items, design.log_odds[:, 0]
    sets = [rng.choice(n, 4, replace=False) for _ in range(100)]
    chosen = [options[np.argmax(utility[options] + rng.gumbel(size=4))] for options in sets]
    items = design.X[:n]
    model = riesz.PreferenceClassifier("utility", random_state=0).fit_choices(items, sets, chosen)
    new_sets = [rng.choice(n, 3, replace=False) for _ in range(100)]
    stated = np.array(model.predict_choice(new_sets, random_state=0))
    is_chosen = [utility[options] + rng.gumbel(size=3) for options in new_sets]
    is_chosen = np.array([values == values.max() for values in is_chosen])
    return {"probability of a choice": Events(stated.ravel(), is_chosen.ravel())}


def cyclic_choices(seed):
    """Choices of one or two of 4 items by scores with cycles, and probabilities of choices from sets of 3."""
    design = duels("nested prior", 100, seed)
    rng = generator(seed, "cyclic choices")
    scores = lambda options: design.log_odds[np.ix_(options, options)].mean(axis=1)

    def subset(options, size):
        subsets = list(combinations(range(len(options)), size))
        weights = np.exp([scores(options)[list(part)].sum() for part in subsets])
        return subsets[rng.choice(len(subsets), p=weights / weights.sum())]

    sets = [rng.choice(design.n_items, 4, replace=False) for _ in range(100)]
    chosen = [set(options[list(subset(options, 1 + i % 2))].tolist()) for i, options in enumerate(sets)]
    items = design.X[: design.n_items]
    model = riesz.PreferenceClassifier(random_state=0).fit_choices(items, sets, chosen)
    new_sets = [rng.choice(design.n_items, 3, replace=False) for _ in range(100)]
    stated = np.array(model.predict_choice(new_sets, random_state=0))
    is_chosen = np.zeros((100, 3), dtype=bool)
    is_chosen[np.arange(100), [subset(options, 1)[0] for options in new_sets]] = True
    return {"probability of a choice": Events(stated.ravel(), is_chosen.ravel())}


def coefficients(seed):
    """Coefficients of the linear model, in units of standardised features."""
    rng = generator(seed, "coefficients")
    X = rng.normal(size=(30, 3)) * [1.0, 2.0, 0.5]
    truth = rng.normal(size=3)
    utility = X @ truth
    pairs = np.array([rng.choice(30, 2, replace=False) for _ in range(150)])
    is_won = rng.random(150) < 1 / (1 + np.exp(-(utility[pairs[:, 0]] - utility[pairs[:, 1]])))
    model = riesz.PreferenceClassifier("linear").fit(X, pairs, outcome=is_won)
    return {"coefficients": Intervals.from_normal(truth, model.coef_, model.coef_std_)}


def bags_of_items(seed):
    """Log odds of bags of items, the means of those of their members."""
    design = duels("prior", 300, seed)
    rng = generator(seed, "bags of items")
    items = pd.DataFrame(design.X[: design.n_items], columns=["a", "b"])
    members = [(bag, int(item)) for bag in range(20) for item in rng.choice(len(items), 3, replace=False)]
    bag_items = np.array([item for _, item in members]).reshape(20, 3)
    pairs = np.array([rng.choice(20, 2, replace=False) for _ in range(60)])
    model = riesz.PreferenceClassifier("utility", random_state=0).fit(items, design.duels)
    mean, std, probability = model.predict_bags(items, members, pairs)
    pair_log_odds = lambda pair: design.log_odds[np.ix_(bag_items[pair[0]], bag_items[pair[1]])].mean()
    truth = np.array([pair_log_odds(pair) for pair in pairs])
    is_won = rng.random(len(truth)) < 1 / (1 + np.exp(-truth))
    return {
        "log odds of bags": Intervals.from_normal(truth, mean, std),
        "probability of a win": Events(probability[:, 1], is_won),
    }


def _fitted_clusters(rng, X, kind, quality, n_duels):
    """Fits clusters to duels that are decided by quality within a kind, and by chance between kinds."""
    left, right = np.triu_indices(len(X), 1)
    taken = rng.choice(len(left), n_duels, replace=False)
    left, right = left[taken], right[taken]
    truth = np.where(kind[left] == kind[right], quality[left] - quality[right], 0.0)
    is_won = rng.random(len(truth)) < 1 / (1 + np.exp(-truth))
    model = riesz.PreferenceClusters(kind.max() + 1, n_subsamples=0, random_state=0)
    return model.fit(X, np.column_stack([left, right]), outcome=is_won)


def clusters(seed):
    """Membership of items in two clusters, each with its own ranking."""
    rng = generator(seed, "clusters")
    kind = np.repeat([0, 1], 12)
    X = np.column_stack([kind + 0.7 * rng.normal(size=24), rng.normal(size=24)])
    quality = np.where(kind == 0, 1.0, -1.0) * 3 * X[:, 1]
    model = _fitted_clusters(rng, X, kind, quality, n_duels=150)
    stated = model.probabilities_[:, 1]
    # Clusters have no names: take the better of both.
    is_second = kind == 1 if np.mean((stated > 0.5) == (kind == 1)) >= 0.5 else kind == 0
    return {"membership": Events(stated, is_second)}


def three_clusters(seed):
    """The most probable of three clusters, each with its own ranking."""
    rng = generator(seed, "three clusters")
    kind = np.repeat([0, 1, 2], 12)
    centres = np.array([[0.0, 0.0], [1.5, 0.0], [0.75, 1.3]])
    X = np.column_stack([centres[kind] + 0.6 * rng.normal(size=(36, 2)), rng.normal(size=36)])
    quality = np.where(kind == 2, 3 * X[:, 0], np.array([3.0, -3.0, 0.0])[kind] * X[:, 2])
    model = _fitted_clusters(rng, X, kind, quality, n_duels=300)
    # Clusters have no names: take the best ones.
    is_right = (np.array(names)[model.labels_] == kind for names in permutations(range(3)))
    return {"membership": Events(model.probabilities_.max(axis=1), max(is_right, key=np.sum))}


def spectral_index(seed):
    """SpecR of outcomes of fair coins, and of a perfect ranking, against its reference values."""
    rng = generator(seed, "SpecR")
    pairs = np.array([rng.choice(15, 2, replace=False) for _ in range(60)])
    items = list(range(15))
    coins = spec_r(pairs, outcome=rng.random(60) < 0.5, items=items, random_state=seed % 2**31)
    order = rng.permutation(15)
    is_won = order[pairs[:, 0]] > order[pairs[:, 1]]
    ranked = spec_r(pairs, outcome=is_won, items=items, random_state=seed % 2**31)
    value = lambda index: np.array([index.value])
    return {
        "fair coins": Intervals.from_normal(value(coins), coins.random_mean, coins.random_std),
        "perfect ranking": Intervals.from_normal(
            value(ranked), ranked.perfect_ranking_mean, ranked.perfect_ranking_std
        ),
    }


def _duel_row(kind, n_duels, design, n_short=0, **settings):
    return Row(
        f"duels, {kind}, {n_duels}",
        f"{design}; {n_duels} duels of {30 if n_duels <= 100 else 40} items with 2 features",
        "PreferenceClassifier, nested, default",
        log_odds(kind, n_duels, **settings),
        DUELS,
        n_short=n_short,
    )


_UTILITY = "utility drawn from a Gaussian kernel"

ROWS = [
    _duel_row("prior", 100, _UTILITY),
    _duel_row("nested prior", 100, "utility and cyclic part drawn from the prior"),
    _duel_row("smooth", 100, "smooth utility, which is no draw"),
    _duel_row("rough", 100, "Ornstein-Uhlenbeck utility"),
    _duel_row("cycles", 100, "rock-paper-scissors on a ring"),
    _duel_row("rough", 300, "Ornstein-Uhlenbeck utility"),
    _duel_row("steps", 300, "utility of steps"),
    _duel_row("abilities", 300, "smooth utility plus abilities that no feature shows"),
    Row(
        "duels, prior, 100, true hyper-parameters",
        f"{_UTILITY}; 100 duels of 30 items with 2 features",
        "utility, kernel known",
        log_odds("prior", 100, has_true_kernel=True),
        DUELS,
        n_short=25,
    ),
    Row(
        "duels, ties, 300",
        f"{_UTILITY}, ties with a margin; 300 duels of 40 items",
        "utility, ties as a third outcome",
        ties,
        {
            "advantage of the left item": ("PreferenceClassifier.decision_function",),
            "probability of a win": ("PreferenceClassifier.predict_proba", "Duel.probability"),
            "probability of a tie": ("PreferenceClassifier.predict_proba", "Duel.probability_tie"),
        },
    ),
    Row(
        "duels, prior, 300, utility",
        f"{_UTILITY}; 300 duels of 40 items",
        "utility, default",
        log_odds("prior", 300, model="utility"),
        DUELS,
    ),
    Row(
        "duels, prior, 300, utility, 8 landmarks",
        f"{_UTILITY}; 300 duels of 40 items",
        "utility, 8 items as landmarks, 512 draws",
        log_odds("prior", 300, model="utility", n_landmarks=8, n_samples=512),
        DUELS,
    ),
    Row(
        "duels, prior, 300, bags",
        f"{_UTILITY}; 300 duels of 40 items; pairs of bags of 3 items",
        "utility, default",
        bags_of_items,
        {
            "log odds of bags": ("PreferenceClassifier.predict_bags",),
            "probability of a win": ("PreferenceClassifier.predict_bags",),
        },
    ),
    Row(
        "ranking, nested prior, 100",
        "utility and cyclic part drawn from the prior; 100 duels of 30 items",
        "rankability of the nested model",
        ranking("nested prior", 100),
        RANKING,
    ),
    Row(
        "ranking, cycles, 100",
        "rock-paper-scissors on a ring; 100 duels of 30 items",
        "rankability of the nested model",
        ranking("cycles", 100),
        RANKING,
    ),
    Row(
        "abilities",
        "normal abilities of 15 items; 200 duels",
        "bradley_terry, ridge by evidence",
        abilities,
        {
            "abilities": ("PreferenceClassifier.abilities_std_",),
            "utilities": ("Rankability.utility_interval", "Rankability.elo"),
            "ranks": ("Rankability.rank_interval",),
            "the best item": ("Rankability.probability_best",),
        },
        n_short=20,
    ),
    Row(
        "choices from sets",
        f"{_UTILITY}; 100 choices from sets of 4 of 30 items",
        "utility, default",
        choices,
        {"probability of a choice": ("PreferenceClassifier.predict_choice",)},
    ),
    Row(
        "choices with cycles",
        "utility and cyclic part drawn from the prior; 100 choices of one or two of 4 of 30 items",
        "nested, default",
        cyclic_choices,
        {"probability of a choice": ("PreferenceClassifier.predict_choice",)},
    ),
    Row(
        "linear coefficients",
        "linear utility of 3 features; 150 duels of 30 items",
        "linear, ridge by evidence",
        coefficients,
        {"coefficients": ("PreferenceClassifier.coef_std_",)},
        n_short=60,
    ),
    Row(
        "clusters",
        "two clusters of 12 items that overlap; 150 duels",
        "PreferenceClusters of two clusters",
        clusters,
        {"membership": ("PreferenceClusters.probabilities_",)},
    ),
    Row(
        "clusters, three",
        "three clusters of 12 items that overlap; 300 duels",
        "PreferenceClusters of three clusters",
        three_clusters,
        {"membership": ("PreferenceClusters.probabilities_",)},
    ),
    Row(
        "SpecR",
        "60 duels of 15 items: fair coins, and a perfect ranking",
        "spec_r",
        spectral_index,
        {"fair coins": ("SpecR.random_std",), "perfect ranking": ("SpecR.perfect_ranking_std",)},
        n_short=45,
    ),
]
