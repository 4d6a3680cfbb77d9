# Made by scripts/stubs.
from builtins import bool as _bool, float as _float
from typing import Any
from ._C import _device

from . import (
    accelerator as accelerator, amp as amp, ao as ao, autograd as autograd, backends as backends, classes as classes,
    compiler as compiler, cpu as cpu, cuda as cuda, distributed as distributed, distributions as distributions,
    export as export, fft as fft, func as func, functional as functional, futures as futures, fx as fx, hub as hub,
    jit as jit, library as library, linalg as linalg, masked as masked, mps as mps, mtia as mtia,
    multiprocessing as multiprocessing, nested as nested, nn as nn, onnx as onnx, optim as optim,
    overrides as overrides, profiler as profiler, quantization as quantization, quasirandom as quasirandom,
    random as random, serialization as serialization, signal as signal, sparse as sparse, special as special,
    storage as storage, testing as testing, torch_version as torch_version, types as types, utils as utils,
    version as version, xpu as xpu,
)
from ._C import (
    DisableTorchFunction as DisableTorchFunction, DisableTorchFunctionSubclass as DisableTorchFunctionSubclass,
    Generator as Generator, Size as Size, Tensor as Tensor, abs as abs, abs_ as abs_, absolute as absolute,
    acos as acos, acos_ as acos_, acosh as acosh, acosh_ as acosh_, adaptive_avg_pool1d as adaptive_avg_pool1d,
    adaptive_max_pool1d as adaptive_max_pool1d, add as add, addbmm as addbmm, addcdiv as addcdiv, addcmul as addcmul,
    addmm as addmm, addmv as addmv, addmv_ as addmv_, addr as addr, adjoint as adjoint,
    affine_grid_generator as affine_grid_generator, alias_copy as alias_copy, all as all, allclose as allclose,
    alpha_dropout as alpha_dropout, alpha_dropout_ as alpha_dropout_, amax as amax, amin as amin, aminmax as aminmax,
    angle as angle, any as any, arange as arange, arccos as arccos, arccos_ as arccos_, arccosh as arccosh,
    arccosh_ as arccosh_, arcsin as arcsin, arcsin_ as arcsin_, arcsinh as arcsinh, arcsinh_ as arcsinh_,
    arctan as arctan, arctan2 as arctan2, arctan_ as arctan_, arctanh as arctanh, arctanh_ as arctanh_,
    argmax as argmax, argmin as argmin, argsort as argsort, argwhere as argwhere, as_strided as as_strided,
    as_strided_ as as_strided_, as_strided_copy as as_strided_copy, as_strided_scatter as as_strided_scatter,
    as_tensor as as_tensor, asin as asin, asin_ as asin_, asinh as asinh, asinh_ as asinh_, atan as atan,
    atan2 as atan2, atan_ as atan_, atanh as atanh, atanh_ as atanh_,
    autocast_decrement_nesting as autocast_decrement_nesting, autocast_increment_nesting as autocast_increment_nesting,
    avg_pool1d as avg_pool1d, baddbmm as baddbmm, bartlett_window as bartlett_window, batch_norm as batch_norm,
    bernoulli as bernoulli, bilinear as bilinear, binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
    bincount as bincount, binomial as binomial, bitwise_and as bitwise_and, bitwise_left_shift as bitwise_left_shift,
    bitwise_not as bitwise_not, bitwise_or as bitwise_or, bitwise_right_shift as bitwise_right_shift,
    bitwise_xor as bitwise_xor, blackman_window as blackman_window, bmm as bmm, broadcast_to as broadcast_to,
    bucketize as bucketize, can_cast as can_cast, cat as cat, ceil as ceil, ceil_ as ceil_, celu as celu,
    celu_ as celu_, channel_shuffle as channel_shuffle, cholesky as cholesky, cholesky_inverse as cholesky_inverse,
    cholesky_solve as cholesky_solve, chunk as chunk, clamp as clamp, clamp_ as clamp_, clamp_max as clamp_max,
    clamp_max_ as clamp_max_, clamp_min as clamp_min, clamp_min_ as clamp_min_,
    clear_autocast_cache as clear_autocast_cache, clip as clip, clip_ as clip_, clone as clone,
    column_stack as column_stack, combinations as combinations, complex as complex, concat as concat,
    concatenate as concatenate, conj as conj, conj_physical as conj_physical, conj_physical_ as conj_physical_,
    constant_pad_nd as constant_pad_nd, conv1d as conv1d, conv2d as conv2d, conv3d as conv3d,
    conv_transpose1d as conv_transpose1d, conv_transpose2d as conv_transpose2d, conv_transpose3d as conv_transpose3d,
    convolution as convolution, copysign as copysign, corrcoef as corrcoef, cos as cos, cos_ as cos_, cosh as cosh,
    cosh_ as cosh_, cosine_embedding_loss as cosine_embedding_loss, cosine_similarity as cosine_similarity,
    count_nonzero as count_nonzero, cov as cov, cross as cross, ctc_loss as ctc_loss, cummax as cummax,
    cummin as cummin, cumprod as cumprod, cumsum as cumsum, cumulative_trapezoid as cumulative_trapezoid,
    deg2rad as deg2rad, deg2rad_ as deg2rad_, det as det, detach as detach, detach_ as detach_, device as device,
    diag as diag, diag_embed as diag_embed, diagflat as diagflat, diagonal as diagonal, diagonal_copy as diagonal_copy,
    diagonal_scatter as diagonal_scatter, diff as diff, digamma as digamma, dist as dist, div as div, divide as divide,
    dot as dot, dropout as dropout, dropout_ as dropout_, mm as dsmm, dsplit as dsplit, dstack as dstack,
    dtype as dtype, embedding as embedding, embedding_bag as embedding_bag, embedding_renorm_ as embedding_renorm_,
    empty as empty, empty_like as empty_like, empty_permuted as empty_permuted, empty_strided as empty_strided,
    eq as eq, equal as equal, erf as erf, erf_ as erf_, erfc as erfc, erfc_ as erfc_, erfinv as erfinv, exp as exp,
    exp2 as exp2, exp2_ as exp2_, exp_ as exp_, expand_copy as expand_copy, expm1 as expm1, expm1_ as expm1_,
    eye as eye, feature_alpha_dropout as feature_alpha_dropout, feature_alpha_dropout_ as feature_alpha_dropout_,
    feature_dropout as feature_dropout, feature_dropout_ as feature_dropout_, fill as fill, fill_ as fill_, fix as fix,
    fix_ as fix_, flatten as flatten, flip as flip, fliplr as fliplr, flipud as flipud, float_power as float_power,
    floor as floor, floor_ as floor_, floor_divide as floor_divide, fmax as fmax, fmin as fmin, fmod as fmod,
    frac as frac, frac_ as frac_, frexp as frexp, frobenius_norm as frobenius_norm, from_numpy as from_numpy,
    frombuffer as frombuffer, full as full, full_like as full_like, gather as gather, gcd as gcd, gcd_ as gcd_,
    ge as ge, geqrf as geqrf, ger as ger, get_autocast_dtype as get_autocast_dtype,
    get_default_dtype as get_default_dtype, get_num_threads as get_num_threads, gradient as gradient,
    greater as greater, greater_equal as greater_equal, grid_sampler as grid_sampler,
    grid_sampler_2d as grid_sampler_2d, grid_sampler_3d as grid_sampler_3d, group_norm as group_norm, gru as gru,
    gru_cell as gru_cell, gt as gt, hamming_window as hamming_window, hann_window as hann_window,
    hardshrink as hardshrink, hash_tensor as hash_tensor, heaviside as heaviside,
    hinge_embedding_loss as hinge_embedding_loss, histc as histc, histogram as histogram, hsplit as hsplit,
    hstack as hstack, hypot as hypot, i0 as i0, i0_ as i0_, igamma as igamma, igammac as igammac, imag as imag,
    index_add as index_add, index_copy as index_copy, index_fill as index_fill, index_put as index_put,
    index_put_ as index_put_, index_reduce as index_reduce, index_select as index_select, inner as inner,
    instance_norm as instance_norm, inverse as inverse, is_autocast_cache_enabled as is_autocast_cache_enabled,
    is_autocast_enabled as is_autocast_enabled, is_complex as is_complex, is_conj as is_conj,
    is_floating_point as is_floating_point, is_grad_enabled as is_grad_enabled, is_inference as is_inference,
    is_inference_mode_enabled as is_inference_mode_enabled, is_neg as is_neg, is_signed as is_signed,
    isclose as isclose, isfinite as isfinite, isin as isin, isinf as isinf, isnan as isnan, isneginf as isneginf,
    isposinf as isposinf, isreal as isreal, kaiser_window as kaiser_window, kl_div as kl_div, kron as kron,
    kthvalue as kthvalue, layer_norm as layer_norm, layout as layout, lcm as lcm, lcm_ as lcm_, ldexp as ldexp,
    ldexp_ as ldexp_, le as le, lerp as lerp, less as less, less_equal as less_equal, lgamma as lgamma,
    linspace as linspace, log as log, log10 as log10, log10_ as log10_, log1p as log1p, log1p_ as log1p_, log2 as log2,
    log2_ as log2_, log_ as log_, log_softmax as log_softmax, logaddexp as logaddexp, logaddexp2 as logaddexp2,
    logcumsumexp as logcumsumexp, logdet as logdet, logical_and as logical_and, logical_not as logical_not,
    logical_or as logical_or, logical_xor as logical_xor, logit as logit, logit_ as logit_, logspace as logspace,
    logsumexp as logsumexp, lstm as lstm, lstm_cell as lstm_cell, lt as lt, lu_solve as lu_solve,
    lu_unpack as lu_unpack, margin_ranking_loss as margin_ranking_loss, masked_fill as masked_fill,
    masked_scatter as masked_scatter, masked_select as masked_select, matmul as matmul, matrix_exp as matrix_exp,
    matrix_power as matrix_power, max as max, max_pool1d as max_pool1d,
    max_pool1d_with_indices as max_pool1d_with_indices, max_pool2d as max_pool2d, max_pool3d as max_pool3d,
    maximum as maximum, mean as mean, median as median, memory_format as memory_format, min as min, minimum as minimum,
    mm as mm, mode as mode, moveaxis as moveaxis, movedim as movedim, msort as msort, mul as mul,
    multinomial as multinomial, multiply as multiply, mv as mv, mvlgamma as mvlgamma, nan_to_num as nan_to_num,
    nan_to_num_ as nan_to_num_, nanmean as nanmean, nanmedian as nanmedian, nanquantile as nanquantile,
    nansum as nansum, narrow as narrow, narrow_copy as narrow_copy, native_batch_norm as native_batch_norm,
    native_channel_shuffle as native_channel_shuffle, native_dropout as native_dropout,
    native_group_norm as native_group_norm, native_layer_norm as native_layer_norm, ne as ne, neg as neg, neg_ as neg_,
    negative as negative, negative_ as negative_, nextafter as nextafter, nonzero as nonzero,
    nonzero_static as nonzero_static, norm_except_dim as norm_except_dim, normal as normal, not_equal as not_equal,
    nuclear_norm as nuclear_norm, numel as numel, ones as ones, ones_like as ones_like, orgqr as orgqr, ormqr as ormqr,
    outer as outer, pairwise_distance as pairwise_distance, pdist as pdist, permute as permute,
    permute_copy as permute_copy, pinverse as pinverse, pixel_shuffle as pixel_shuffle,
    pixel_unshuffle as pixel_unshuffle, poisson as poisson, poisson_nll_loss as poisson_nll_loss, polar as polar,
    polygamma as polygamma, positive as positive, pow as pow, prelu as prelu, prod as prod,
    promote_types as promote_types, put as put, qr as qr, quantile as quantile, rad2deg as rad2deg,
    rad2deg_ as rad2deg_, rand as rand, rand_like as rand_like, randint as randint, randint_like as randint_like,
    randn as randn, randn_like as randn_like, randperm as randperm, ravel as ravel, real as real,
    reciprocal as reciprocal, reciprocal_ as reciprocal_, relu as relu, relu_ as relu_, remainder as remainder,
    renorm as renorm, repeat_interleave as repeat_interleave, reshape as reshape, resize_as_ as resize_as_,
    resolve_conj as resolve_conj, resolve_neg as resolve_neg, result_type as result_type, rms_norm as rms_norm,
    rnn_relu as rnn_relu, rnn_relu_cell as rnn_relu_cell, rnn_tanh as rnn_tanh, rnn_tanh_cell as rnn_tanh_cell,
    roll as roll, rot90 as rot90, round as round, round_ as round_, row_stack as row_stack, rrelu as rrelu,
    rrelu_ as rrelu_, rsqrt as rsqrt, rsqrt_ as rsqrt_, rsub as rsub, scalar_tensor as scalar_tensor,
    scatter as scatter, scatter_add as scatter_add, scatter_reduce as scatter_reduce, searchsorted as searchsorted,
    segment_reduce as segment_reduce, select as select, select_copy as select_copy, select_scatter as select_scatter,
    selu as selu, selu_ as selu_, set_autocast_cache_enabled as set_autocast_cache_enabled,
    set_autocast_dtype as set_autocast_dtype, set_autocast_enabled as set_autocast_enabled,
    set_num_threads as set_num_threads, sgn as sgn, sigmoid as sigmoid, sigmoid_ as sigmoid_, sign as sign,
    signbit as signbit, sin as sin, sin_ as sin_, sinc as sinc, sinc_ as sinc_, sinh as sinh, sinh_ as sinh_,
    slice_copy as slice_copy, slice_scatter as slice_scatter, slogdet as slogdet, softmax as softmax, sort as sort,
    split_copy as split_copy, split_with_sizes as split_with_sizes, split_with_sizes_copy as split_with_sizes_copy,
    mm as spmm, sqrt as sqrt, sqrt_ as sqrt_, square as square, square_ as square_, squeeze as squeeze,
    squeeze_copy as squeeze_copy, stack as stack, std as std, std_mean as std_mean, sub as sub, subtract as subtract,
    sum as sum, svd as svd, swapaxes as swapaxes, swapdims as swapdims, t as t, t_copy as t_copy, take as take,
    take_along_dim as take_along_dim, tan as tan, tan_ as tan_, tanh as tanh, tanh_ as tanh_, tensor as tensor,
    tensor_split as tensor_split, threshold as threshold, threshold_ as threshold_, tile as tile, topk as topk,
    trace as trace, transpose as transpose, transpose_copy as transpose_copy, trapezoid as trapezoid, trapz as trapz,
    triangular_solve as triangular_solve, tril as tril, tril_indices as tril_indices,
    triplet_margin_loss as triplet_margin_loss, triu as triu, triu_indices as triu_indices, true_divide as true_divide,
    trunc as trunc, trunc_ as trunc_, unbind as unbind, unbind_copy as unbind_copy, unflatten as unflatten,
    unfold_copy as unfold_copy, unsafe_chunk as unsafe_chunk, unsafe_split as unsafe_split,
    unsafe_split_with_sizes as unsafe_split_with_sizes, unsqueeze as unsqueeze, unsqueeze_copy as unsqueeze_copy,
    var as var, var_mean as var_mean, vdot as vdot, view_as_complex as view_as_complex,
    view_as_complex_copy as view_as_complex_copy, view_as_real as view_as_real, view_as_real_copy as view_as_real_copy,
    view_copy as view_copy, vsplit as vsplit, vstack as vstack, where as where, xlogy as xlogy, xlogy_ as xlogy_,
    zero_ as zero_, zeros as zeros, zeros_like as zeros_like,
)
from ._archive import PyTorchFileReader as PyTorchFileReader, PyTorchFileWriter as PyTorchFileWriter
from ._control import cond as cond, while_loop as while_loop
from ._core_names import (
    AcceleratorError as AcceleratorError, DeviceObjType as DeviceObjType, DispatchKey as DispatchKey,
    DispatchKeySet as DispatchKeySet, ExcludeDispatchKeyGuard as ExcludeDispatchKeyGuard, FatalError as FatalError,
    OutOfMemoryError as OutOfMemoryError, TensorType as TensorType,
)
from ._dtype_info import finfo as finfo, iinfo as iinfo
from ._interop import (
    asarray as asarray, from_dlpack as from_dlpack, from_file as from_file, get_device as get_device,
    get_device_module as get_device_module, to_dlpack as to_dlpack, vander as vander,
)
from ._legacy_autocast import (
    get_autocast_cpu_dtype as get_autocast_cpu_dtype, get_autocast_gpu_dtype as get_autocast_gpu_dtype,
    get_autocast_ipu_dtype as get_autocast_ipu_dtype, get_autocast_xla_dtype as get_autocast_xla_dtype,
    is_autocast_cpu_enabled as is_autocast_cpu_enabled, is_autocast_ipu_enabled as is_autocast_ipu_enabled,
    is_autocast_xla_enabled as is_autocast_xla_enabled, set_autocast_cpu_dtype as set_autocast_cpu_dtype,
    set_autocast_cpu_enabled as set_autocast_cpu_enabled, set_autocast_gpu_dtype as set_autocast_gpu_dtype,
    set_autocast_ipu_dtype as set_autocast_ipu_dtype, set_autocast_ipu_enabled as set_autocast_ipu_enabled,
    set_autocast_xla_dtype as set_autocast_xla_dtype, set_autocast_xla_enabled as set_autocast_xla_enabled,
)
from ._names import (
    is_distributed as is_distributed, is_nonzero as is_nonzero, is_tensor as is_tensor, typename as typename,
)
from ._ops import ops as ops
from ._qscheme import (
    per_channel_affine as per_channel_affine, per_channel_affine_float_qparams as per_channel_affine_float_qparams,
    per_channel_symmetric as per_channel_symmetric, per_tensor_affine as per_tensor_affine,
    per_tensor_symmetric as per_tensor_symmetric, qscheme as qscheme,
)
from ._ranges import range as range
from ._removed import eig as eig, lstsq as lstsq, matrix_rank as matrix_rank, solve as solve, symeig as symeig
from ._settings import (
    are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled,
    compiled_with_cxx11_abi as compiled_with_cxx11_abi, get_deterministic_debug_mode as get_deterministic_debug_mode,
    get_float32_matmul_precision as get_float32_matmul_precision, get_num_interop_threads as get_num_interop_threads,
    init_num_threads as init_num_threads,
    is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
    is_vulkan_available as is_vulkan_available, is_warn_always_enabled as is_warn_always_enabled,
    set_default_dtype as set_default_dtype, set_default_tensor_type as set_default_tensor_type,
    set_deterministic_debug_mode as set_deterministic_debug_mode,
    set_float32_matmul_precision as set_float32_matmul_precision, set_flush_denormal as set_flush_denormal,
    set_num_interop_threads as set_num_interop_threads, set_warn_always as set_warn_always,
    use_deterministic_algorithms as use_deterministic_algorithms,
)
from ._streams import Event as Event, Stream as Stream
from ._symbolic import (
    SymBool as SymBool, SymFloat as SymFloat, SymInt as SymInt, sym_constrain_range as sym_constrain_range,
    sym_constrain_range_for_size as sym_constrain_range_for_size, sym_float as sym_float,
    sym_fresh_size as sym_fresh_size, sym_int as sym_int, sym_ite as sym_ite, sym_max as sym_max, sym_min as sym_min,
    sym_not as sym_not, sym_sqrt as sym_sqrt, sym_sum as sym_sum,
)
from ._tag import Tag as Tag
from ._tensor_text import set_printoptions as set_printoptions
from ._utils import classproperty as classproperty
from .amp import GradScaler as GradScaler, autocast as autocast
from .autograd.anomaly_mode import (
    is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled, is_anomaly_enabled as is_anomaly_enabled,
    set_anomaly_enabled as set_anomaly_enabled,
)
from .autograd.grad_mode import (
    enable_grad as enable_grad, inference_mode as inference_mode, no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from .compiler import compile as compile
from .func import vmap as vmap
from .functional import (
    atleast_1d as atleast_1d, atleast_2d as atleast_2d, atleast_3d as atleast_3d, block_diag as block_diag,
    broadcast_shapes as broadcast_shapes, broadcast_tensors as broadcast_tensors, cartesian_prod as cartesian_prod,
    cdist as cdist, chain_matmul as chain_matmul, einsum as einsum, histogramdd as histogramdd, istft as istft,
    lobpcg as lobpcg, lu as lu, meshgrid as meshgrid, norm as norm, pca_lowrank as pca_lowrank, split as split,
    stft as stft, svd_lowrank as svd_lowrank, tensordot as tensordot, unique as unique,
    unique_consecutive as unique_consecutive, unravel_index as unravel_index,
)
from .jit import (
    CompilationUnit as CompilationUnit, Future as Future, ScriptFunction as ScriptFunction,
    ScriptModule as ScriptModule, fork as fork, wait as wait,
)
from .random import (
    get_rng_state as get_rng_state, initial_seed as initial_seed, manual_seed as manual_seed, seed as seed,
    set_rng_state as set_rng_state, thread_safe_generator as thread_safe_generator,
)
from .serialization import load as load, save as save
from .sparse import (
    sparse_compressed_tensor as sparse_compressed_tensor, sparse_coo_tensor as sparse_coo_tensor,
    sparse_csr_tensor as sparse_csr_tensor,
)
from .storage import (
    BFloat16Storage as BFloat16Storage, BoolStorage as BoolStorage, ByteStorage as ByteStorage,
    CharStorage as CharStorage, ComplexDoubleStorage as ComplexDoubleStorage,
    ComplexFloatStorage as ComplexFloatStorage, DoubleStorage as DoubleStorage, FloatStorage as FloatStorage,
    HalfStorage as HalfStorage, IntStorage as IntStorage, LongStorage as LongStorage, ShortStorage as ShortStorage,
    Storage as Storage, StorageBase as StorageBase, TypedStorage as TypedStorage, UntypedStorage as UntypedStorage,
    is_storage as is_storage,
)
from .testing import FileCheck as FileCheck
from .utils._device import get_default_device as get_default_device, set_default_device as set_default_device
BFloat16Tensor: Any
BoolTensor: Any
ByteTensor: Any
CharTensor: Any
DoubleTensor: Any
FloatTensor: Any
HalfTensor: Any
IntTensor: Any
LongTensor: Any
ShortTensor: Any
__version__: Any
bfloat16: Any
bits16: Any
bits1x8: Any
bits2x4: Any
bits4x2: Any
bits8: Any
bool: Any
cdouble: Any
cfloat: Any
channels_last: Any
channels_last_3d: Any
complex128: Any
complex32: Any
complex64: Any
contiguous_format: Any
default_generator: Any
double: Any
e: _float
float: Any
float16: Any
float32: Any
float4_e2m1fn_x2: Any
float64: Any
float8_e4m3fn: Any
float8_e4m3fnuz: Any
float8_e5m2: Any
float8_e5m2fnuz: Any
float8_e8m0fnu: Any
half: Any
has_lapack: _bool
has_mkl: _bool
has_mkldnn: _bool
has_openmp: _bool
has_spectral: _bool
inf: _float
int: Any
int1: Any
int16: Any
int2: Any
int3: Any
int32: Any
int4: Any
int5: Any
int6: Any
int64: Any
int7: Any
int8: Any
jagged: Any
legacy_contiguous_format: Any
long: Any
nan: _float
newaxis: Any
pi: _float
preserve_format: Any
qint32: Any
qint8: Any
quint2x4: Any
quint4x2: Any
quint8: Any
short: Any
sparse_bsc: Any
sparse_bsr: Any
sparse_coo: Any
sparse_csc: Any
sparse_csr: Any
strided: Any
uint1: Any
uint16: Any
uint2: Any
uint3: Any
uint32: Any
uint4: Any
uint5: Any
uint6: Any
uint64: Any
uint7: Any
uint8: Any
