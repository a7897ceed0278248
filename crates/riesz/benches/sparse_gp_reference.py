"""The evidence lower bound of a sparse Gaussian process and its gradient by GPflow's SGPR, for a Gaussian
kernel with a length scale for each column.

The program reads a line with n, d and m. Then it reads, as doubles, the rows, the targets, the inducing
points, and the logarithms of the kernel's scale, its length scales and the noise. For each further line it
evaluates once and prints the CPU seconds of the evaluation. At the end of the input it prints its peak memory
in bytes, the bound, and the gradient of the bound by these logarithms."""

import os
import resource
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import gpflow
import numpy as np
import tensorflow as tf


def main():
    threads = int(os.environ["OMP_NUM_THREADS"])
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    n, d, m = map(int, sys.stdin.buffer.readline().split())
    numbers = np.frombuffer(sys.stdin.buffer.read(8 * (n * d + n + m * d + d + 2)))
    x, y, points, theta = np.split(numbers, np.cumsum([n * d, n, m * d]))
    # The same jitter as riesz adds to the diagonal.
    gpflow.config.set_default_jitter(1e-10 * np.exp(theta[0]))
    kernel = gpflow.kernels.SquaredExponential(variance=np.exp(theta[0]), lengthscales=np.exp(theta[1:-1]))
    model = gpflow.models.SGPR(
        (x.reshape(n, d), y[:, None]), kernel, points.reshape(m, d), noise_variance=np.exp(theta[-1])
    )
    gpflow.set_trainable(model.inducing_variable, False)
    parameters = [kernel.variance, kernel.lengthscales, model.likelihood.variance]

    @tf.function
    def evaluate():
        with tf.GradientTape() as tape:
            value = model.elbo()
        return value, tape.gradient(value, [p.unconstrained_variable for p in parameters])

    # The first call builds the graph.
    value, slopes = evaluate()
    for _ in sys.stdin.buffer:
        start = time.process_time()
        value, slopes = evaluate()
        print(time.process_time() - start, flush=True)
    # Convert from GPflow's unconstrained variables to logarithms of the parameters.
    with tf.GradientTape() as tape:
        logs = [tf.math.log(p.transform(p.unconstrained_variable)) for p in parameters]
        total = tf.add_n([tf.reduce_sum(log) for log in logs])
    ratios = tape.gradient(total, [p.unconstrained_variable for p in parameters])
    slopes = np.concatenate([np.ravel(slope / ratio) for slope, ratio in zip(slopes, ratios)])
    print(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, float(value), *slopes.tolist())


main()
