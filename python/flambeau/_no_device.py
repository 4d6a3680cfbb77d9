"""What the modules of devices that this build does not drive answer."""


def functions(kind, label):
    """The public functions of `flambeau.<kind>`: queries that say no, and others that raise."""

    def needs_device(*args, **kwargs):
        raise AssertionError(f"Torch not compiled with {label} enabled")

    def no(*args, **kwargs):
        return False

    def none(*args, **kwargs):
        return None

    def zero(*args, **kwargs):
        return 0

    def empty(*args, **kwargs):
        return []

    found = dict.fromkeys(("is_available", "is_initialized", "is_bf16_supported", "is_tf32_supported",
                           "is_current_stream_capturing", "_is_in_bad_fork"), no)  # fmt: skip
    found.update(dict.fromkeys(("get_rng_state_all", "get_arch_list"), empty))
    found.update(dict.fromkeys(("device_count", "current_allocated_memory", "driver_allocated_memory",
                                "recommended_max_memory", "memory_allocated", "memory_reserved",
                                "max_memory_allocated", "max_memory_reserved"), zero))  # fmt: skip
    found.update(dict.fromkeys(("manual_seed", "manual_seed_all", "seed", "seed_all", "empty_cache", "init",
                                "reset_peak_memory_stats", "reset_accumulated_memory_stats"), none))  # fmt: skip
    found.update(dict.fromkeys(("current_device", "set_device", "get_device_name", "get_device_properties", "synchronize",
                                "current_stream", "stream", "get_rng_state", "set_rng_state", "device", "Stream",
                                "Event", "device_of", "get_device_capability", "initial_seed", "mem_get_info",
                                "set_rng_state_all", "set_stream", "StreamContext", "utilization"), needs_device))  # fmt: skip
    return found
