"""GPyTorch's exact Gaussian processes, against enumeration with the model's own predictions.

GPyTorch comes with gigabytes of PyTorch, which `scripts/test` does not install: `.venv/bin/pip install gpytorch` to run these.
"""

import numpy as np
import pytest

import riesz
from conftest import interventional

torch = pytest.importorskip("torch")
gpytorch = pytest.importorskip("gpytorch")
gk = gpytorch.kernels


class Process(gpytorch.models.ExactGP):
    def __init__(self, X, y, kernel, mean=None, likelihood=None):
        super().__init__(torch.as_tensor(X), torch.as_tensor(y), likelihood or gpytorch.likelihoods.GaussianLikelihood())
        self.mean_module = mean or gpytorch.means.ConstantMean()
        self.covar_module = kernel

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Warped(Process):
    def forward(self, x):
        return super().forward(torch.tanh(x))


def settled(kernel):
    """A kernel with parameters that are not all alike."""
    for k, (_, parameter) in enumerate(kernel.named_parameters()):
        parameter.data = parameter.data + 0.3 * torch.arange(1, parameter.numel() + 1).reshape(parameter.shape) + 0.1 * k
    return kernel


KERNELS = {
    "rbf": lambda: gk.ScaleKernel(gk.RBFKernel()),
    "rbf, ard": lambda: gk.ScaleKernel(gk.RBFKernel(ard_num_dims=4)),
    "linear + periodic": lambda: gk.LinearKernel() + gk.ScaleKernel(gk.PeriodicKernel(ard_num_dims=4)),
    "product of parts": lambda: gk.RBFKernel(ard_num_dims=2, active_dims=[0, 2]) * gk.MaternKernel(1.5, active_dims=[1]),
    "sum of parts": lambda: gk.ScaleKernel(gk.RQKernel(active_dims=[3])) + gk.RBFKernel(active_dims=[0, 1]) + gk.ConstantKernel(),
    "nested": lambda: gk.ScaleKernel(gk.RBFKernel(active_dims=[1]), active_dims=[2, 3]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name, data):
    X, y = data
    mean = gpytorch.means.ConstantMean()
    mean.constant.data.fill_(0.7)
    model = Process(X, y, settled(KERNELS[name]()), mean).double()
    explanation = riesz.Explainer(model, X[:6])(X[20:22])
    assert model.training

    def predict(rows):
        model.eval()
        with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
            out = model(torch.as_tensor(rows)).mean.numpy()
        return out

    for i in range(2):
        np.testing.assert_allclose(explanation.values[i], interventional(predict, X[20 + i], X[:6]), atol=1e-8)


@pytest.mark.filterwarnings("ignore")
def test_covariances_are_those_of_the_process(data):
    """With two features, φ_0 - φ_1 is what the first alone is worth less the second."""
    X, y = data[0][:, :2], data[1]
    model = Process(X, y, settled(gk.ScaleKernel(gk.RBFKernel(ard_num_dims=2)))).double()
    found = riesz.Explainer(model, X[:6], covariance=True)(X[20:22])
    model.eval()
    for i, x in enumerate(X[20:22]):
        first, second = X[:6].copy(), X[:6].copy()
        first[:, 0], second[:, 1] = x
        with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
            joint = model(torch.as_tensor(np.vstack([first, second]))).covariance_matrix.numpy()
        weights = np.repeat([1 / 6, -1 / 6], 6)
        apart = np.array([1.0, -1.0])
        assert apart @ found.covariance[i] @ apart == pytest.approx(weights @ joint @ weights, rel=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_noise_and_single_precision(data):
    X, y = data
    X32, y32 = X.astype(np.float32), y.astype(np.float32)
    noise = torch.linspace(0.1, 0.5, len(y))
    likelihood = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(noise)
    model = Process(X32, y32, gk.ScaleKernel(gk.RBFKernel()), gpytorch.means.ZeroMean(), likelihood)
    found = riesz.Explainer(model)(X32[:4]).predictions
    model.eval()
    with torch.no_grad():
        np.testing.assert_allclose(found, model(torch.as_tensor(X32[:4])).mean.numpy(), atol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_what_is_not_read_is_named(data):
    X, y = data
    for model, culprit in [
        (Warped(X, y, gk.RBFKernel()), "forward does more"),
        (Process(X, y, gk.CosineKernel()), "CosineKernel"),
        (Process(X, y, gk.RBFKernel(), gpytorch.means.LinearMean(4)), "LinearMean"),
        (Process(X, y, gk.MaternKernel(1.5)), "ties the columns"),
        (gk.RBFKernel(), "not an ExactGP"),
    ]:
        with pytest.raises(riesz.UnsupportedModelError, match=culprit):
            riesz.Explainer(model.double(), X[:3])
