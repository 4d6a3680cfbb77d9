"""What operators say to dtypes that they are not for: exception types and words are PyTorch's."""

import pytest

import flambeau as torch
import flambeau.nn.functional as F

EYE, ONES = torch.eye(3), torch.ones(3, dtype=torch.int32)

# Integers are refused in the operator's name, halves in the kernel's; or both in the same.
FLOATING = "Expected a floating point or complex tensor as input. Got {}"
LOW = "Low precision dtypes not supported. Got {}"
EPSILON = "This function doesn't handle types other than float and double"
PINV = "linalg.pinv({}{{[3, 3]}}): expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types"
LINALG = {
    "det": (torch.linalg.det, f"linalg.det: {FLOATING}", "lu_cpu"),
    "slogdet": (torch.linalg.slogdet, f"linalg.slogdet: {FLOATING}", f"linalg.slogdet: {LOW}"),
    "inv": (torch.linalg.inv, f"linalg.inv: {FLOATING}", f"linalg.inv: {LOW}"),
    "solve": (lambda x: torch.linalg.solve(x, x), f"linalg.solve: {FLOATING}", "lu_cpu"),
    "lu_factor": (torch.linalg.lu_factor, "lu_cpu", "lu_cpu"),
    "lu": (torch.linalg.lu, "lu_cpu", "lu_cpu"),
    "lu_solve": (lambda x: torch.linalg.lu_solve(x, ONES, x), f"torch.linalg.lu_solve: {FLOATING}", "linalg.lu_solve_cpu"),
    "qr": (torch.linalg.qr, f"linalg.qr: {FLOATING}", "geqrf_cpu"),
    "geqrf": (torch.geqrf, "geqrf_cpu", "geqrf_cpu"),
    "householder_product": (lambda x: torch.linalg.householder_product(x, x[0]), "orgqr_cpu", "orgqr_cpu"),
    "svd": (torch.linalg.svd, f"linalg.svd: {FLOATING}", "linalg_svd_cpu"),
    "svdvals": (torch.linalg.svdvals, f"linalg.svd: {FLOATING}", "linalg_svd_cpu"),
    "eigh": (torch.linalg.eigh, "linalg_eigh_cpu", "linalg_eigh_cpu"),
    "eig": (torch.linalg.eig, "Unknown Complex ScalarType for {}", "linalg_eig_out_cpu"),
    "linalg.cholesky": (torch.linalg.cholesky, f"linalg.cholesky: {FLOATING}", "cholesky_cpu"),
    "cholesky": (torch.cholesky, "cholesky_cpu", "cholesky_cpu"),
    "cholesky_solve": (lambda x: torch.cholesky_solve(x, x), "cholesky_solve_cpu", "cholesky_solve_cpu"),
    "cholesky_inverse": (torch.cholesky_inverse, "cholesky_inverse_out_cpu", "cholesky_inverse_out_cpu"),
    "ldl_factor": (torch.linalg.ldl_factor, f"torch.linalg.ldl_factor_ex: {FLOATING}", "ldl_factor_kernel_cpu"),
    "ldl_solve": (lambda x: torch.linalg.ldl_solve(x, ONES, x), f"torch.linalg.ldl_solve: {FLOATING}", "ldl_solve_kernel_cpu"),
    "solve_triangular": (lambda x: torch.linalg.solve_triangular(x, x, upper=True), "triangular_solve_cpu", "triangular_solve_cpu"),
    "triangular_solve": (lambda x: torch.triangular_solve(x, x), "triangular_solve_cpu", "triangular_solve_cpu"),
    "lstsq": (lambda x: torch.linalg.lstsq(x, x), EPSILON, EPSILON),
    "matrix_rank": (torch.linalg.matrix_rank, EPSILON, EPSILON),
    "pinv": (torch.linalg.pinv, PINV, PINV),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", LINALG)
def test_linalg(name, dtype):
    call, integers, halves = LINALG[name]
    word = halves if dtype.is_floating_point else integers
    says = {torch.int64: "Long", torch.bool: "Bool", torch.float16: "Half", torch.bfloat16: "BFloat16"}[dtype]
    kernel = word.endswith("_cpu")
    with pytest.raises(RuntimeError) as caught:
        call(EYE.to(dtype))
    assert isinstance(caught.value, NotImplementedError) == kernel
    assert str(caught.value) == (f'"{word}" not implemented for \'{says}\'' if kernel else word.format(says))


def test_norms_of_halves():
    for order in ("nuc", 2):
        with pytest.raises(RuntimeError, match=f"^linalg.matrix_norm: {LOW.format('BFloat16')}$"):
            torch.linalg.norm(EYE.bfloat16(), order)
        with pytest.raises(RuntimeError, match="^linalg.matrix_norm: Low precision dtypes not supported"):
            torch.linalg.matrix_norm(EYE.half(), order, dtype=torch.float32)


def test_few_dims():
    with pytest.raises(RuntimeError, match=r"^linalg.pinv\(Float\{\[3\]\}\): expected a tensor with 2 or more dimensions"):
        torch.linalg.pinv(torch.ones(3))
    with pytest.raises(RuntimeError, match="^torch.linalg.matrix_rank: The input tensor input must have at least 2 dim"):
        torch.linalg.matrix_rank(torch.ones(3))


@pytest.mark.parametrize(
    ("mode", "dims", "kernel"),
    [
        ("nearest", 1, "compute_indices_weights_nearest"),
        ("nearest", 2, "upsample_nearest2d_channels_last"),
        ("nearest-exact", 3, "compute_indices_weights_nearest"),
        ("linear", 1, "compute_indices_weights_linear"),
        ("bilinear", 2, "upsample_bilinear2d_channels_last"),
        ("bicubic", 2, "compute_indices_weights_cubic"),
        ("trilinear", 3, "compute_indices_weights_linear"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64], ids=str)
def test_interpolate(mode, dims, kernel, dtype):
    with pytest.raises(NotImplementedError, match=f'^"{kernel}" not implemented for'):
        F.interpolate(torch.ones((1, 3) + (4,) * dims, dtype=dtype), scale_factor=2, mode=mode)


def test_interpolate_by_format():
    # Large images by format, and by channels.
    kernels = {"nearest": "compute_indices_weights_nearest", "bilinear": "compute_indices_weights_linear"}
    for mode, general in kernels.items():
        for channels, format, kernel in (
            (8, torch.contiguous_format, general),
            (3, torch.channels_last, general),
            (8, torch.channels_last, f"upsample_{mode}2d_channels_last"),
        ):
            images = torch.ones(1, channels, 40, 40, dtype=torch.int32).contiguous(memory_format=format)
            with pytest.raises(NotImplementedError, match=f"^\"{kernel}\" not implemented for 'Int'$"):
                F.interpolate(images, scale_factor=2, mode=mode)
    with pytest.raises(NotImplementedError, match="^\"compute_index_ranges_weights\" not implemented for 'Int'$"):
        F.interpolate(images, scale_factor=2, mode="bilinear", antialias=True)
    for dims, mode in ((1, "linear"), (3, "trilinear")):
        with pytest.raises(NotImplementedError, match="^\"compute_indices_weights_linear\" not implemented for 'Byte'$"):
            F.interpolate(torch.ones((1, 1) + (4,) * dims, dtype=torch.uint8), scale_factor=2, mode=mode)


def test_complex_extremes():
    x = torch.ones(2, 2, dtype=torch.complex64)
    for name in ("argmax", "argmin"):
        with pytest.raises(RuntimeError, match=rf"^{name}\(\): does not support complex input$") as caught:
            getattr(x, name)()
        assert caught.type is RuntimeError
    for name in ("max", "min"):
        with pytest.raises(RuntimeError, match=rf"^{name}\(\): does not support complex input$"):
            getattr(x, name)(1)
        for call, kernel in ((name, f"{name}_all"), (f"a{name}", f"{name}_values_cpu")):
            with pytest.raises(NotImplementedError, match=f"^\"{kernel}\" not implemented for 'ComplexFloat'$"):
                getattr(x, call)()
