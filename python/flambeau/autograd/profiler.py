"""Recording which operators ran, when and for how long."""
import enum
import math
import os
from collections import defaultdict

from .. import _C
from ..utils._contextlib import _DecoratorContextManager

__all__ = ["EnforceUnique", "KinetoStepTracker", "profile", "record_function", "emit_itt", "emit_nvtx", "load_nvprof",
           "parse_nvprof_trace", "FunctionEvent", "EventList", "MemRecordsAcc", "kineto_available"]  # fmt: skip

DeviceType = enum.Enum("DeviceType", "CPU CUDA MKLDNN OPENGL OPENCL IDEEP HIP FPGA MAIA XLA Vulkan Metal XPU MPS Meta", start=0)
ProfilerActivity = enum.Enum("ProfilerActivity", "CPU XPU MTIA CUDA HPU PrivateUse1", start=0)
ProfilerState = enum.Enum(
    "ProfilerState", "Disabled CPU CUDA NVTX ITT PRIVATEUSE1 KINETO KINETO_GPU_FALLBACK KINETO_PRIVATEUSE1_FALLBACK",
    start=0,
)  # fmt: skip


class ProfilerConfig:
    """What to record."""

    def __init__(self, state, report_input_shapes=False, profile_memory=False, with_stack=False, with_flops=False,
                 with_modules=False, experimental_config=None, trace_id=""):  # fmt: skip
        self.state, self.report_input_shapes = state, report_input_shapes
        self.profile_memory, self.with_stack = profile_memory, with_stack


def kineto_available():
    return True


def _format_time(us):
    if us >= 1e6:
        return f"{us / 1e6:.3f}s"
    return f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


def _format_memory(nbytes):
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if abs(nbytes) >= unit:
            return f"{nbytes / unit:.2f} {name}"
    return f"{nbytes} B"


def _product_flops(shapes):
    """Two for each term of a product of (batches of) matrices, the last two shapes."""
    left, right = [shape for shape in shapes if shape][-2:]
    return 2 * math.prod(left) * right[-1]


def _elementwise_flops(shapes):
    """One for each element of the first operand."""
    return math.prod(shapes[0])


# What the shapes of an operator's tensors tell of its work; the first tensor of `addmm` and `baddbmm` is added.
_FLOPS = {"aten::mm": _product_flops, "aten::addmm": _product_flops, "aten::bmm": _product_flops,
          "aten::baddbmm": _product_flops, "aten::mul": _elementwise_flops, "aten::add": _elementwise_flops}


def _share(part, whole):
    if whole == 0:
        return "NaN" if part else "0.00%"
    return f"{part * 100.0 / whole:.2f}%"


class Interval:
    def __init__(self, start, end):
        self.start, self.end = start, end

    def elapsed_us(self):
        return self.end - self.start


class FunctionEvent:
    """One operator that ran, with those it called."""

    def __init__(self, id, name, thread, start_us, end_us, overload_name=None, fwd_thread=None, input_shapes=None,
                 stack=None, scope=0, use_device=None, cpu_memory_usage=0, device_memory_usage=0, is_async=False,
                 is_remote=False, sequence_nr=-1, node_id=-1, device_type=None, device_index=0,
                 device_resource_id=None, is_legacy=False, flops=None, trace_name=None, concrete_inputs=None,
                 kwinputs=None, is_user_annotation=False, **_):  # fmt: skip
        self.id, self.name, self.thread, self.node_id = id, name, thread, node_id
        self.overload_name = overload_name or ""
        self.trace_name = trace_name
        self.time_range = Interval(start_us, end_us)
        self.fwd_thread, self.scope, self.use_device = fwd_thread, scope, use_device
        self.input_shapes, self.concrete_inputs = input_shapes, concrete_inputs
        self.kwinputs, self.stack = kwinputs, stack or []
        self.cpu_children, self.cpu_parent, self.kernels = [], None, []
        self.cpu_memory_usage, self.device_memory_usage = cpu_memory_usage, device_memory_usage
        self.is_async, self.is_remote, self.is_legacy = is_async, is_remote, is_legacy
        self.sequence_nr, self.device_index, self.flops = sequence_nr, device_index, flops
        self.device_type = DeviceType.CPU if device_type is None else device_type
        self.device_resource_id = thread if device_resource_id is None else device_resource_id
        self.is_user_annotation, self.count = is_user_annotation, 1

    def append_kernel(self, name, device, duration):
        self.kernels.append((name, device, duration))

    def append_cpu_child(self, child):
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent):
        self.cpu_parent = parent

    @property
    def key(self):
        return self.name

    @property
    def metadata_json(self):
        return "{}"

    @property
    def cpu_time_total(self):
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self):
        return self.cpu_time_total - sum(c.cpu_time_total for c in self.cpu_children)

    @property
    def self_cpu_memory_usage(self):
        return self.cpu_memory_usage - sum(c.cpu_memory_usage for c in self.cpu_children)

    @property
    def cpu_time(self):
        return self.cpu_time_total / self.count if self.count else 0.0

    cpu_time_str = property(lambda self: _format_time(self.cpu_time))
    cpu_time_total_str = property(lambda self: _format_time(self.cpu_time_total))
    # there is one kind of device: nothing runs elsewhere
    device_time_total = self_device_time_total = self_device_memory_usage = property(lambda self: 0)
    cuda_time_total = self_cuda_time_total = self_cuda_memory_usage = device_time = cuda_time = property(lambda self: 0)

    def __repr__(self):
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[c.id for c in self.cpu_children]} thread={self.thread} input_shapes={self.input_shapes}>"
        )


class FunctionEventAvg(FunctionEvent):
    """The events of one key, added up."""

    def __init__(self, first=None):
        name = first.name if first is not None else None
        super().__init__(0, name, 0, 0, 0)
        self.count, self._total, self._self, self._self_memory = 0, 0.0, 0.0, 0

    def add(self, event):
        self.name = event.name if self.name is None else self.name
        self.input_shapes = event.input_shapes if self.input_shapes is None else self.input_shapes
        self.count += event.count
        if event.flops is not None:
            self.flops = (self.flops or 0) + event.flops
        parent, nested = event.cpu_parent, False
        while parent is not None and not nested:  # a recursive call is inside its caller's time already
            nested, parent = parent.name == event.name, parent.cpu_parent
        self._total += 0 if nested else event.cpu_time_total
        self._self += event.self_cpu_time_total
        self.cpu_memory_usage += 0 if nested else event.cpu_memory_usage
        self._self_memory += event.self_cpu_memory_usage
        return self

    __iadd__ = add
    cpu_time_total = property(lambda self: self._total)
    self_cpu_time_total = property(lambda self: self._self)
    self_cpu_memory_usage = property(lambda self: self._self_memory)

    def __repr__(self):
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={_format_time(self.self_cpu_time_total)} "
            f"cpu_time={self.cpu_time_str}  input_shapes={self.input_shapes}>"
        )


class EventList(list):
    """Events, with tables and traces of them."""

    def __init__(self, *args, **kwargs):
        self._use_device = kwargs.pop("use_device", None)
        self._profile_memory = kwargs.pop("profile_memory", False)
        self._with_flops = kwargs.pop("with_flops", False)
        super().__init__(*args, **kwargs)

    @property
    def self_cpu_time_total(self):
        return sum(e.self_cpu_time_total for e in self)

    def key_averages(self, group_by_input_shapes=False, group_by_stack_n=0, group_by_overload_name=False):
        groups = {}
        for event in self:
            key = [event.key]
            if group_by_input_shapes:
                key.append(str(event.input_shapes))
            if group_by_stack_n:
                key += event.stack[:group_by_stack_n]
            if group_by_overload_name:
                key.append(event.overload_name)
            groups.setdefault(tuple(key), FunctionEventAvg(event)).add(event)
        if not group_by_input_shapes:
            for average in groups.values():
                average.input_shapes = []
        return EventList(groups.values(), use_device=self._use_device, profile_memory=self._profile_memory,
                         with_flops=self._with_flops)

    def total_average(self):
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
        total.name = "Total"
        return total

    def table(self, sort_by=None, row_limit=100, max_src_column_width=75, max_name_column_width=55,
              max_shapes_column_width=80, header=None, top_level_events_only=False, time_unit=None):  # fmt: skip
        """A table of the events, longest first by `sort_by` ('self_cpu_time_total', 'count', ...)."""
        events = [e for e in self if not (top_level_events_only and e.cpu_parent is not None)]
        if sort_by is not None:
            events.sort(key=lambda e: getattr(e, sort_by.replace("cuda", "device")), reverse=True)
        total = self.self_cpu_time_total
        heads = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
        memory, counted = self._profile_memory, [e.flops for e in events if e.flops] if self._with_flops else []
        shapes = any(e.input_shapes for e in events)
        if memory:
            heads += ["CPU Mem", "Self CPU Mem"]
        heads.append("# of Calls")
        if shapes:
            heads.append("Input Shapes")
        if counted:
            scale = min(len(str(min(counted))) - 1, 17) // 3
            heads.append(f"Total {['', 'K', 'M', 'G', 'T', 'P'][scale]}FLOPs")
        rows = []
        for e in events[:row_limit] if row_limit and row_limit > 0 else events:
            name = e.key if len(e.key) <= max_name_column_width else e.key[: max_name_column_width - 3] + "..."
            row = [
                name, _share(e.self_cpu_time_total, total), _format_time(e.self_cpu_time_total),
                _share(e.cpu_time_total, total), _format_time(e.cpu_time_total), _format_time(e.cpu_time),
            ]  # fmt: skip
            if memory:
                row += [_format_memory(e.cpu_memory_usage), _format_memory(e.self_cpu_memory_usage)]
            row.append(str(e.count))
            if shapes:
                row.append(str(e.input_shapes or [])[:max_shapes_column_width])
            if counted:
                row.append(f"{e.flops / 1000**scale:.3f}" if e.flops else "--")
            rows.append(row)
        widths = [12] * len(heads)
        widths[0] = min(max((len(e.key) for e in events), default=0) + 4, max_name_column_width)
        if shapes:
            place = heads.index("Input Shapes")
            widths[place] = min(max(len(str(e.input_shapes or [])) for e in events) + 4, max_shapes_column_width)
        line = "  ".join("-" * w for w in widths) + "  "
        text = ["  ".join(c.rjust(w) for c, w in zip(r, widths)) + "  " for r in [heads, *rows]]
        lines = [line, text[0], line, *text[1:], line]
        if header is not None:
            lines = ["=" * len(line), header, *lines]
        return "\n".join(lines) + f"\nSelf CPU time total: {_format_time(total)}\n"

    def __str__(self):
        return self.table()

    def export_chrome_trace(self, path):
        """Writes the events for chrome://tracing and Perfetto."""
        import json

        with open(path, "w") as file:
            json.dump(_chrome_trace(self), file)

    def supported_export_stacks_metrics(self):
        return ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total", "self_privateuse1_time_total"]

    def export_stacks(self, path, metric):
        """Writes 'frame;frame value' lines for flame graphs."""
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError("metric should be one of: " + str(self.supported_export_stacks_metrics()))
        with open(path, "w") as file:
            for event in self:
                if event.stack:
                    frames = ";".join(reversed(event.stack)).replace(" ", "_")
                    print(f"{frames} {int(getattr(event, metric))}", file=file)


def _chrome_trace(events, meta=None):
    pid = os.getpid()
    records = [
        {
            "ph": "X", "cat": "user_annotation" if e.is_user_annotation else "cpu_op", "name": e.name, "pid": pid,
            "tid": e.thread, "ts": e.time_range.start, "dur": e.cpu_time_total,
            "args": {"External id": e.id, "Input Dims": e.input_shapes or []},
        }
        for e in events
    ]  # fmt: skip
    names = [
        {"name": "process_name", "ph": "M", "ts": 0, "pid": pid, "tid": 0, "args": {"name": "python"}},
        {"name": "process_labels", "ph": "M", "ts": 0, "pid": pid, "tid": 0, "args": {"labels": "CPU"}},
    ]
    return {"schemaVersion": 1, "deviceProperties": [], "displayTimeUnit": "ms", **(meta or {}),
            "traceEvents": names + records}  # fmt: skip


def build_events(records, **settings):
    """Events of what the core recorded, (name, start ns, end ns, thread, shapes, is a user's range) each, nested."""
    records = sorted(records, key=lambda r: (r[1], -r[2]))
    origin = records[0][1] if records else 0
    events, open_in_thread = EventList(**settings), defaultdict(list)
    for i, (name, start, end, thread, shapes, user) in enumerate(records, 1):
        event = FunctionEvent(
            i, name, thread, (start - origin) / 1e3, (end - origin) / 1e3, input_shapes=shapes, is_user_annotation=user
        )
        outer = open_in_thread[thread]
        while outer and outer[-1].time_range.end < event.time_range.end:
            outer.pop()
        if settings.get("with_flops"):
            event.flops = _FLOPS[name](shapes) if name in _FLOPS and shapes else 0
        if outer:
            event.set_cpu_parent(outer[-1])
            outer[-1].append_cpu_child(event)
        outer.append(event)
        events.append(event)
    return events


class profile:
    """Records the operators of a block: `print(prof.key_averages().table())`."""

    def __init__(self, enabled=True, *, use_cuda=False, use_device=None, record_shapes=False, with_flops=False,
                 profile_memory=False, with_stack=False, with_modules=False, use_kineto=False, use_cpu=True,
                 experimental_config=None, acc_events=False, custom_trace_id_callback=None,
                 post_processing_timeout_s=None):  # fmt: skip
        self.enabled, self.entered = enabled, False
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.with_flops, self.with_modules, self.use_device = with_flops, with_modules, use_device
        self.function_events, self._stats, self.trace_id = None, None, ""

    def config(self, create_trace_id=False):
        return ProfilerConfig(ProfilerState.KINETO, self.record_shapes, self.profile_memory, self.with_stack)

    def default_trace_id(self):
        import uuid

        return uuid.uuid4().hex.upper()

    create_trace_id = default_trace_id

    def __enter__(self):
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        _C._profiler_start(self.record_shapes or self.with_flops, self.profile_memory)
        return self

    _start_trace = __enter__

    def __exit__(self, exc_type, exc_val, exc_tb):
        if self.enabled:
            records = _C._profiler_stop()
            self.function_events = build_events(records, profile_memory=self.profile_memory, with_flops=self.with_flops)
        return False

    def _check_finish(self):
        if self.function_events is None:
            raise RuntimeError("Profiler didn't finish running")

    def __repr__(self):
        return "<unfinished torch.autograd.profile>" if self.function_events is None else repr(self.function_events)

    def __str__(self):
        return "<unfinished torch.autograd.profile>" if self.function_events is None else str(self.function_events)

    def toggle_collection_dynamic(self, enabled, activities):
        pass

    def table(self, *args, **kwargs):
        self._check_finish()
        return self.function_events.table(*args, **kwargs)

    def export_chrome_trace(self, path):
        self._check_finish()
        self.function_events.export_chrome_trace(path)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        self._check_finish()
        self.function_events.export_stacks(path, metric)

    def key_averages(self, *args, **kwargs):
        self._check_finish()
        return self.function_events.key_averages(*args, **kwargs)

    def total_average(self):
        self._check_finish()
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self):
        self._check_finish()
        return self.function_events.self_cpu_time_total


class record_function(_DecoratorContextManager):
    """Names a block, or a function, in the profile."""

    def __init__(self, name, args=None):
        self.name, self.args = name, args
        self._token = None

    def clone(self):
        return self.__class__(self.name, self.args)

    def __enter__(self):
        self._token = _C._profiler_range_push(self.name)
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        _C._profiler_range_pop(self._token)

    def _call_end_callbacks_on_future(self, future):
        return future


class _Nothing:
    """A marker for a tool that is not there: does nothing."""

    def __init__(self, enabled=True, record_shapes=False):
        self.enabled = enabled

    def __enter__(self):
        return self

    def __exit__(self, *args):
        return False


class emit_itt(_Nothing):
    """Kept for programs that use it; does nothing."""


class emit_nvtx(_Nothing):
    """Kept for programs that use it; does nothing without the device."""


class EnforceUnique:
    """Raises when a key comes twice."""

    def __init__(self):
        self.seen = set()

    def see(self, *key):
        if key in self.seen:
            raise RuntimeError("duplicate key: " + str(key))
        self.seen.add(key)


def parse_nvprof_trace(path):
    """The operator ranges in an nvprof database."""
    import sqlite3

    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    strings = {r["id"]: r["value"] for r in connection.execute("SELECT _id_ as id, value FROM StringTable")}
    query = (
        "SELECT start.id AS id, start.name AS name, start.timestamp AS start, stop.timestamp AS stop "
        "FROM CUPTI_ACTIVITY_KIND_MARKER AS start INNER JOIN CUPTI_ACTIVITY_KIND_MARKER AS stop ON start.id = stop.id "
        "WHERE start.name != 0 AND stop.name = 0"
    )
    records = [(strings[r["name"]], r["start"], r["stop"], 0, None, False) for r in connection.execute(query)]
    return list(build_events(records))


def load_nvprof(path):
    return EventList(parse_nvprof_trace(path))


class KinetoStepTracker:
    """Counts the steps of a training loop over several counters; the slowest leads."""

    _current_step = 0
    _step_dict: dict = defaultdict(int)

    @classmethod
    def init_step_count(cls, requester):
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester):
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester):
        if requester not in cls._step_dict:
            cls.init_step_count(requester)
        cls._step_dict[requester] += 1
        cls._current_step = max(cls._step_dict.values())
        return cls._current_step

    @classmethod
    def current_step(cls):
        return cls._current_step


class MemRecordsAcc:
    """Memory records by time."""

    def __init__(self, mem_records):
        self._mem_records = sorted(mem_records, key=lambda r: r[0].start_ns())

    def in_interval(self, start_us, end_us):
        for record in self._mem_records:
            if start_us * 1000 <= record[0].start_ns() <= end_us * 1000:
                yield record
