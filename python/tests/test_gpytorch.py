"""GPyTorch's exact Gaussian processes, against enumeration with the model's own predictions.

GPyTorch needs gigabytes of PyTorch, which `scripts/test` does not install: run
`.venv/bin/pip install gpytorch` for these tests."""

import numpy as np
import pytest

import riesz
from conftest import interventional

torch = pytest.importorskip("torch")
gpytorch = pytest.importorskip("gpytorch")
gk = gpytorch.kernels


class Process(gpytorch.models.ExactGP):
    def __init__(self, X, y, kernel, mean=None, likelihood=None):
        super().__init__(
            torch.as_tensor(X), torch.as_tensor(y), likelihood or gpytorch.likelihoods.GaussianLikelihood()
        )
        self.mean_module = mean or gpytorch.means.ConstantMean()
        self.covar_module = kernel

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Warped(Process):
    def forward(self, x):
        return super().forward(torch.tanh(x))


def settled(kernel):
    """A kernel whose parameters all differ."""
    for k, (_, parameter) in enumerate(kernel.named_parameters()):
        parameter.data = (
            parameter.data + 0.3 * torch.arange(1, parameter.numel() + 1).reshape(parameter.shape) + 0.1 * k
        )
    return kernel


KERNELS = {
    "rbf": lambda: gk.ScaleKernel(gk.RBFKernel()),
    "rbf, ard": lambda: gk.ScaleKernel(gk.RBFKernel(ard_num_dims=4)),
    "linear + periodic": lambda: gk.LinearKernel() + gk.ScaleKernel(gk.PeriodicKernel(ard_num_dims=4)),
    "product of parts": lambda: (
        gk.RBFKernel(ard_num_dims=2, active_dims=[0, 2]) * gk.MaternKernel(1.5, active_dims=[1])
    ),
    "sum of parts": lambda: (
        gk.ScaleKernel(gk.RQKernel(active_dims=[3])) + gk.RBFKernel(active_dims=[0, 1]) + gk.ConstantKernel()
    ),
    "nested": lambda: gk.ScaleKernel(gk.RBFKernel(active_dims=[1]), active_dims=[2, 3]),
    "matern, ard": lambda: gk.ScaleKernel(gk.MaternKernel(2.5, ard_num_dims=4)),
    "rational quadratic": lambda: gk.ScaleKernel(gk.RQKernel()),
    "additive structure": lambda: gk.AdditiveStructureKernel(gk.ScaleKernel(gk.MaternKernel(1.5)), 4),
    "product structure": lambda: (
        gk.ScaleKernel(gk.ProductStructureKernel(gk.RBFKernel(ard_num_dims=4), 4)) + gk.LinearKernel()
    ),
    "structure of some columns": lambda: gk.AdditiveStructureKernel(gk.RQKernel(active_dims=[3, 1]), 4),
}


def mean_of(model):
    def mean(rows):
        model.eval()
        with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
            return model(torch.as_tensor(rows)).mean.numpy()

    return mean


def exact(model, X, f=None):
    """Explains by the kernel, and compares with the enumeration of all coalitions."""
    was_training = model.training
    explainer = riesz.Explainer(model, X[:6])
    assert explainer._cores and explainer.exactness == "exact", explainer._imported.refusal
    explanation = explainer(X[20:22])
    assert model.training == was_training and explanation.certificate.holds
    f = f or mean_of(model)
    atol = 1e-8 * np.abs(f(X[:30])).max()
    np.testing.assert_allclose(explanation.predictions, f(X[20:22]), atol=atol)
    for i in range(2):
        np.testing.assert_allclose(explanation.values[i], interventional(f, X[20 + i], X[:6]), atol=atol)
    return explanation


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name, data):
    X, y = data
    mean = gpytorch.means.ConstantMean()
    mean.constant.data.fill_(0.7)
    exact(Process(X, y, settled(KERNELS[name]()), mean).double(), X)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kernel", ["rbf", "matern", "rational quadratic", "structure"])
def test_covariances_are_those_of_the_process(kernel, data):
    """With two features, φ_0 - φ_1 = v({0}) - v({1})."""
    X, y = data[0][:, :2], data[1]
    kernels = {
        "rbf": lambda: gk.ScaleKernel(gk.RBFKernel(ard_num_dims=2)),
        "matern": lambda: gk.ScaleKernel(gk.MaternKernel(2.5, ard_num_dims=2)),
        "rational quadratic": lambda: gk.ScaleKernel(gk.RQKernel(ard_num_dims=2)),
        "structure": lambda: gk.ScaleKernel(gk.AdditiveStructureKernel(gk.RBFKernel(), 2)),
    }
    model = Process(X, y, settled(kernels[kernel]())).double()
    explanation = riesz.Explainer(model, X[:6], covariance=True)(X[20:22])
    model.eval()
    for i, x in enumerate(X[20:22]):
        first, second = X[:6].copy(), X[:6].copy()
        first[:, 0], second[:, 1] = x
        with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
            joint = model(torch.as_tensor(np.vstack([first, second]))).covariance_matrix.numpy()
        weights = np.repeat([1 / 6, -1 / 6], 6)
        apart = np.array([1.0, -1.0])
        assert apart @ explanation.covariance[i] @ apart == pytest.approx(weights @ joint @ weights, rel=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_noise_and_single_precision(data):
    X, y = data
    X32, y32 = X.astype(np.float32), y.astype(np.float32)
    noise = torch.linspace(0.1, 0.5, len(y))
    likelihood = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(noise)
    model = Process(X32, y32, gk.ScaleKernel(gk.RBFKernel()), gpytorch.means.ZeroMean(), likelihood)
    predictions = riesz.Explainer(model)(X32[:4]).predictions
    model.eval()
    with torch.no_grad():
        np.testing.assert_allclose(predictions, model(torch.as_tensor(X32[:4])).mean.numpy(), atol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_what_is_not_read_is_named_and_estimated_from_its_own_mean(data):
    X, y = data
    for model, culprit in [
        (Warped(X, y, gk.RBFKernel()), "does not predict what its kernel and coefficients say"),
        (Process(X, y, gk.PiecewisePolynomialKernel(ard_num_dims=4)), "PiecewisePolynomialKernel"),
        (Process(X, y, gk.RBFKernel(), Curved()), "mean of the Process is a Curved"),
        (Process(X, y, settled(gk.CosineKernel(active_dims=[1]))), "CosineKernel"),
        (
            Process(X, y, settled(gk.SpectralMixtureKernel(num_mixtures=2, ard_num_dims=4))),
            "SpectralMixtureKernel",
        ),
    ]:
        model = model.double()
        with pytest.raises(riesz.UnsupportedModelError, match=culprit):
            riesz.Explainer(model)
        values = riesz.Explainer(model, X[:3])(X[20:21]).values
        np.testing.assert_allclose(values[0], interventional(mean_of(model), X[20], X[:3]), atol=1e-8)
    with pytest.raises(riesz.UnsupportedModelError, match="not an ExactGP"):
        riesz.Explainer(gk.RBFKernel())


class Curved(gpytorch.means.Mean):
    def forward(self, x):
        return torch.sin(x[..., 0])


class Approximate(gpytorch.models.ApproximateGP):
    """A process, or a batch of them, through inducing points."""

    def __init__(self, strategy, batch=(), mean=None):
        super().__init__(strategy(self))
        batch = torch.Size(batch)
        self.mean_module = mean or gpytorch.means.ConstantMean(batch_shape=batch)
        self.covar_module = gk.ScaleKernel(gk.RBFKernel(batch_shape=batch), batch_shape=batch)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def varied(model):
    """A model in double precision whose kernel and variational mean have been changed."""
    model = model.double()
    settled(model.covar_module)
    base = getattr(model.variational_strategy, "base_variational_strategy", model.variational_strategy)
    base.variational_params_initialized.fill_(1)
    for name, parameter in base.named_parameters():
        if name.endswith(("variational_mean", "natural_vec")):
            positions = torch.arange(1, parameter.numel() + 1).reshape(parameter.shape)
            parameter.data = torch.sin(3.0 * positions).double()
    return model


class Tasks(gpytorch.models.ExactGP):
    """Two dependent outputs."""

    def __init__(self, X, Y, **noise):
        super().__init__(
            torch.as_tensor(X),
            torch.as_tensor(Y),
            gpytorch.likelihoods.MultitaskGaussianLikelihood(num_tasks=2, **noise),
        )
        self.mean_module = gpytorch.means.MultitaskMean(gpytorch.means.ConstantMean(), num_tasks=2)
        self.covar_module = gk.MultitaskKernel(gk.RBFKernel(), num_tasks=2, rank=1)

    def forward(self, x):
        return gpytorch.distributions.MultitaskMultivariateNormal(self.mean_module(x), self.covar_module(x))


class Batch(gpytorch.models.ExactGP):
    """A batch of two processes."""

    def __init__(self, X, Y):
        size = torch.Size([2])
        likelihood = gpytorch.likelihoods.GaussianLikelihood(batch_shape=size)
        super().__init__(torch.as_tensor(X).expand(2, *X.shape), torch.as_tensor(Y.T), likelihood)
        self.mean_module = gpytorch.means.ConstantMean(batch_shape=size)
        self.covar_module = gk.ScaleKernel(gk.RBFKernel(batch_shape=size), batch_shape=size)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


@pytest.mark.filterwarnings("ignore")
def test_several_outputs_are_exact(data):
    X, y = data
    Y = np.column_stack([y, -(y**2)])
    pair = gpytorch.models.IndependentModelList(
        Process(X, y, gk.RBFKernel()), Process(X, -y, gk.MaternKernel())
    ).double()
    batch, tasks = Batch(X, Y).double(), Tasks(X, Y).double()
    settled(batch.covar_module)
    settled(tasks)
    coregional = Tasks(X, Y, rank=1, has_global_noise=False)
    coregional.covar_module = gk.LCMKernel(
        [gk.RBFKernel(ard_num_dims=4), gk.MaternKernel(1.5)], num_tasks=2, rank=[1, 2]
    )
    coregional.mean_module = gpytorch.means.MultitaskMean(gpytorch.means.LinearMean(4), num_tasks=2)
    settled(coregional.double())
    of_pair = lambda rows: np.column_stack([mean_of(member)(rows) for member in pair.models])
    of_batch = lambda rows: mean_of(batch)(np.broadcast_to(rows, (2, *rows.shape)).copy()).T
    for model, f in [(tasks, None), (coregional, None), (batch, of_batch), (pair, of_pair)]:
        assert exact(model, X, f).output_names == ["y0", "y1"]
        # Without a background riesz explains the functional game, and still compares predictions.
        assert riesz.Explainer(model)(X[:3]).certificate.holds


@pytest.mark.filterwarnings("ignore")
def test_covariances_of_a_batch(data):
    X, y = data[0][:, :2], data[1]
    batch = Batch(X, np.column_stack([y, -(y**2)])).double()
    settled(batch.covar_module)
    batch_explanation = riesz.Explainer(batch, X[:6], covariance=True)(X[20:21])
    for k in range(2):
        kernel, target = gk.ScaleKernel(gk.RBFKernel()), [y, -(y**2)][k]
        single = Process(X, target, kernel).double()
        kernel.outputscale = batch.covar_module.outputscale[k].detach()
        kernel.base_kernel.lengthscale = batch.covar_module.base_kernel.lengthscale[k].detach()
        single_explanation = riesz.Explainer(single, X[:6], covariance=True)(X[20:21])
        np.testing.assert_allclose(
            batch_explanation.covariance[0, ..., k], single_explanation.covariance[0], rtol=1e-6
        )
    # The posterior of dependent tasks is not that of one expansion.
    tasks = Tasks(X, np.column_stack([y, -(y**2)])).double()
    with pytest.raises(ValueError, match="covariance"):
        riesz.Explainer(tasks, X[:6], covariance=True)


variational = gpytorch.variational
DISTRIBUTIONS = {
    "cholesky": variational.CholeskyVariationalDistribution,
    "mean field": variational.MeanFieldVariationalDistribution,
    "delta": variational.DeltaVariationalDistribution,
    "natural": variational.NaturalVariationalDistribution,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("strategy", ["VariationalStrategy", "UnwhitenedVariationalStrategy"])
def test_variational_processes_are_exact(strategy, distribution, data):
    X, _ = data
    points = torch.as_tensor(X[:7])

    def strategy_of(model):
        return getattr(variational, strategy)(model, points, DISTRIBUTIONS[distribution](7))

    mean = gpytorch.means.LinearMean(4) if distribution == "cholesky" else None
    model = varied(Approximate(strategy_of, mean=mean))
    assert exact(model, X).output_names == ["y"]
    assert riesz.Explainer(model)(X[:3]).certificate.holds
    # A model that has made no prediction yet starts from its prior.
    exact(Approximate(strategy_of).double(), X)


@pytest.mark.filterwarnings("ignore")
def test_variational_processes_of_several_tasks_are_exact(data):
    X, _ = data
    points = torch.stack([torch.as_tensor(X[:7]), torch.as_tensor(X[7:14])])
    distribution = lambda: variational.CholeskyVariationalDistribution(7, batch_shape=torch.Size([2]))
    latent = lambda model: variational.VariationalStrategy(model, points, distribution())
    for strategy, outputs in [
        (lambda model: variational.IndependentMultitaskVariationalStrategy(latent(model), num_tasks=2), 2),
        (lambda model: variational.LMCVariationalStrategy(latent(model), num_tasks=3, num_latents=2), 3),
    ]:
        model = varied(Approximate(strategy, [2]))
        model.mean_module.constant.data = torch.tensor([0.5, -1.0]).double()
        assert exact(model, X).values.shape == (2, 4, outputs)


@pytest.mark.filterwarnings("ignore")
def test_kernels_of_inducing_points_are_exact(data):
    X, y = data
    for correction in (True, False):
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        base = settled(gk.ScaleKernel(gk.MaternKernel(2.5, ard_num_dims=4)))
        kernel = gk.InducingPointKernel(base, torch.as_tensor(X[:9]), likelihood)
        model = Process(X, y, kernel, gpytorch.means.LinearMean(4), likelihood).double()
        with gpytorch.settings.sgpr_diagonal_correction(correction):
            exact(model, X)
            assert riesz.Explainer(model)(X[:3]).certificate.holds


@pytest.mark.filterwarnings("ignore")
def test_models_of_other_kinds_are_estimated_from_their_own_mean(data):
    X, y = data
    points = torch.as_tensor(X[:7])
    strategy = lambda model: variational.CiqVariationalStrategy(
        model, points, variational.CholeskyVariationalDistribution(7)
    )
    model = varied(Approximate(strategy))
    with pytest.raises(riesz.UnsupportedModelError, match="is a CiqVariationalStrategy.*given a background"):
        riesz.Explainer(model)
    values = riesz.Explainer(model, X[:4])(X[20:21]).values
    np.testing.assert_allclose(values[0], interventional(mean_of(model), X[20], X[:4]), atol=1e-7)


class Deep(Process):
    """A network before the kernel."""

    def __init__(self, X, y):
        super().__init__(X, y, settled(gk.ScaleKernel(gk.RBFKernel(ard_num_dims=2))))
        self.features = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Tanh())

    def forward(self, x):
        return super().forward(self.features(x))


@pytest.mark.filterwarnings("ignore")
def test_kernels_behind_a_network_are_estimated(data):
    X, y = data
    torch.manual_seed(1)
    model = Deep(X, y).double()
    with pytest.raises(riesz.UnsupportedModelError, match="the Deep cannot be read as a kernel and a mean"):
        riesz.Explainer(model)
    values = riesz.Explainer(model, X[:4])(X[20:21]).values
    np.testing.assert_allclose(values[0], interventional(mean_of(model), X[20], X[:4]), atol=1e-8)


@pytest.mark.filterwarnings("ignore")
def test_a_linear_mean_is_exact(data):
    X, y = data
    for bias in (True, False):
        mean = gpytorch.means.LinearMean(4, bias=bias)
        mean.weights.data = torch.tensor([[0.5], [-1.0], [2.0], [0.1]])
        model = Process(X, y, settled(gk.ScaleKernel(gk.RBFKernel(ard_num_dims=4))), mean).double()
        explainer = riesz.Explainer(model, X[:6])
        explanation = explainer(X[20:21])
        assert explainer._cores and explanation.certificate.holds
        np.testing.assert_allclose(
            explanation.values[0], interventional(mean_of(model), X[20], X[:6]), atol=1e-8
        )
        with pytest.raises(ValueError, match="covariance=True"):
            riesz.Explainer(model, X[:6], covariance=True)


def test_modules_of_torch_are_handed_over_whole(data):
    X, _ = data
    torch.manual_seed(0)
    for double in (False, True):
        network = torch.nn.Sequential(
            torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Dropout(0.5), torch.nn.Linear(5, 2)
        )
        network = network.double() if double else network
        kind = torch.float64 if double else torch.float32

        def outputs(rows):
            hidden = torch.tanh(network[0](torch.as_tensor(rows, dtype=kind)))
            return network[3](hidden).detach().double().numpy()

        explainer = riesz.Explainer(network, X[:4])
        explanation = explainer(X[20:21])
        assert network.training and network[2].training
        expected = interventional(outputs, X[20], X[:4])
        np.testing.assert_allclose(explanation.values[0], expected, atol=1e-12 if double else 1e-6)
        with pytest.raises(
            riesz.UnsupportedModelError, match="Sequential of PyTorch is not known.* given a background"
        ):
            riesz.Explainer(network)
    with pytest.raises(riesz.UnsupportedModelError, match=r"answers to . rows with the shape"):
        riesz.Explainer(torch.nn.Unflatten(1, (2, 2)), X[:4])(X[:1])
