"""PyTorch's settings of its compiler, with its defaults: programs may read and set them, and nothing depends on them."""
import sys
from types import SimpleNamespace as _Part

from .._dynamo.config import patching

debug = verbose_progress = cpp_wrapper = max_autotune = max_autotune_pointwise = freezing = False
coordinate_descent_tuning = coordinate_descent_check_all_directions = shape_padding = fallback_random = False
epilogue_fusion_first = emulate_precision_casts = profile_bandwidth = freezing_discard_parameters = False
force_fuse_int_mm_with_mul = use_mixed_mm = benchmark_kernel = disable_progress = conv_1x1_as_mm = False
force_disable_caches = keep_output_stride_before_fusion = b2b_gemm_pass = reorder_for_compute_comm_overlap = False
fx_graph_cache = fx_graph_remote_cache = autotune_local_cache = epilogue_fusion = pattern_matcher = True
max_autotune_gemm = inplace_buffers = split_reductions = keep_output_stride = dce = permute_fusion = True
realize_opcount_threshold = 30
realize_reads_threshold = 4
max_fusion_size = 64
unroll_reductions_threshold = 8
compile_threads = 1
mixed_mm_choice = "heuristic"
max_autotune_gemm_backends = "ATEN,TRITON,CPP"
max_autotune_gemm_search_space = "DEFAULT"
cpu_backend = "cpp"
cuda_backend = "triton"
triton = _Part(
    cudagraphs=False, cudagraph_trees=True, cudagraph_skip_dynamic_graphs=False, unique_kernel_names=True,
    autotune_pointwise=True, autotune_cublasLt=True, dense_indexing=False, max_tiles=None, multi_kernel=0,
    persistent_reductions=True, store_cubin=False, descriptive_names="original_aten",
)  # fmt: skip
cpp = _Part(
    threads=-1, simdlen=None, min_chunk_size=512, enable_kernel_profile=False, weight_prepack=True,
    enable_floating_point_contract_flag="off", fallback_scatter_reduce_sum=True, enable_tiling_heuristics=True,
    cxx=(None, "g++"), dynamic_threads=False, descriptive_names="original_aten", max_horizontal_fusion_size=16,
)  # fmt: skip
cuda = _Part(arch=None, version=None, compile_opt_level="-O1", enable_debug_info=False, use_fast_math=False)
aot_inductor = _Part(output_path="", debug_compile=False, serialized_in_spec="", serialized_out_spec="", metadata={},
                     use_runtime_constant_folding=False, package=False)  # fmt: skip
trace = _Part(enabled=False, debug_dir=None, debug_log=False, info_log=False, fx_graph=True, graph_diagram=False,
              output_code=True, compile_profile=False)  # fmt: skip


def get_config_copy():
    """The settings now, by name; those of a part as 'part.name'."""
    found = {}
    for name, value in vars(sys.modules[__name__]).items():
        if isinstance(value, _Part):
            found.update((f"{name}.{key}", one) for key, one in vars(value).items())
        elif not name.startswith("_") and isinstance(value, (bool, int, str, type(None))):
            found[name] = value
    return found


shallow_copy_dict = get_config_copy
patch = patching(__name__)
