"""Functions that PyTorch took away: each raises with what to use instead."""

_SINCE = "This function was deprecated since version 1.9 and is now removed."
_HINTS = {
    "eig": """`torch.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` rather than real tensors mimicking \
complex tensors.

L, _ = torch.eig(A) should be replaced with:
L_complex = torch.linalg.eigvals(A)

and

L, V = torch.eig(A, eigenvectors=True) should be replaced with:
L_complex, V_complex = torch.linalg.eig(A)""",
    "solve": """`torch.solve` is deprecated in favor of `torch.linalg.solve`. `torch.linalg.solve` has its arguments \
reversed and does not return the LU factorization.

To get the LU factorization see `torch.lu`, which can be used with `torch.lu_solve` or `torch.lu_unpack`.
X = torch.solve(B, A).solution should be replaced with:
X = torch.linalg.solve(A, B)""",
    "lstsq": """`torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`.
`torch.linalg.lstsq` has reversed arguments and does not return the QR decomposition in the returned tuple (although it \
returns other information about the problem).

To get the QR decomposition consider using `torch.linalg.qr`.

The returned solution in `torch.lstsq` stored the residuals of the solution in the last m - n columns of the returned \
value whenever m > n. In torch.linalg.lstsq, the residuals are in the field 'residuals' of the returned named tuple.

The unpacking of the solution, as in
X, _ = torch.lstsq(B, A).solution[:A.size(1)]
should be replaced with:
X = torch.linalg.lstsq(A, B).solution""",
    "symeig": """The default behavior has changed from using the upper triangular portion of the matrix by default to using \
the lower triangular portion.

L, _ = torch.symeig(A, upper=upper) should be replaced with:
L = torch.linalg.eigvalsh(A, UPLO='U' if upper else 'L')

and

L, V = torch.symeig(A, eigenvectors=True) should be replaced with:
L, V = torch.linalg.eigh(A, UPLO='U' if upper else 'L')""",
    "matrix_rank": "\nPlease use the `torch.linalg.matrix_rank` function instead. The parameter 'symmetric' was renamed in "
    "`torch.linalg.matrix_rank()` to 'hermitian'.",
}
_REINFORCE = """reinforce() was removed.
Use torch.distributions instead.
See https://pytorch.org/docs/main/distributions.html

Instead of:

probs = policy_network(state)
action = probs.multinomial()
next_state, reward = env.step(action)
action.reinforce(reward)
action.backward()

Use:

probs = policy_network(state)
# NOTE: categorical is equivalent to what used to be called multinomial
m = torch.distributions.Categorical(probs)
action = m.sample()
next_state, reward = env.step(action)
loss = -m.log_prob(action) * reward
loss.backward()
"""


def _gone(name, message):
    def removed(*args, **kwargs):
        raise RuntimeError(message)

    removed.__name__ = removed.__qualname__ = name
    removed.__doc__ = "Removed in PyTorch; raises with what to use instead."
    return removed


eig, solve, lstsq, symeig, matrix_rank = (
    _gone(name, _SINCE + (hint if hint[0] == "\n" else " " + hint)) for name, hint in _HINTS.items()
)
reinforce = _gone("reinforce", _REINFORCE)
