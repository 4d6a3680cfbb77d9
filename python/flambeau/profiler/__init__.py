"""Profiling of training loops, with schedules and Chrome traces."""
import enum
import os

from ..autograd.profiler import (
    DeviceType, KinetoStepTracker, ProfilerActivity, _chrome_trace, kineto_available, record_function,
)  # fmt: skip
from ..autograd.profiler import profile as _Recorder

__all__ = ["profile", "schedule", "supported_activities", "tensorboard_trace_handler", "ProfilerAction",
           "ProfilerActivity", "kineto_available", "DeviceType", "record_function", "ExecutionTraceObserver"]  # fmt: skip

RecordScope = enum.Enum("RecordScope", "FUNCTION BACKWARD_FUNCTION TORCHSCRIPT_FUNCTION USER_SCOPE", start=0)


class ProfilerAction(enum.Enum):
    """What the profiler does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


def schedule(*, wait, warmup, active, repeat=0, skip_first=0, skip_first_wait=0):
    """A function from steps to actions: after `skip_first` steps, cycles of waiting, warming up and recording."""
    if min(wait, warmup, active, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        import warnings

        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)
    length = wait + warmup + active

    def action(step):
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait != 0:
            step += wait
        if repeat > 0 and step // length >= repeat:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def supported_activities():
    """The kinds of work that can be recorded."""
    return {ProfilerActivity.CPU}


def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False):
    """An `on_trace_ready` that writes traces where TensorBoard's plug-in finds them."""
    import socket
    import time

    def handler(prof):
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handler


class profile:
    """Records a block, or with a `schedule` some steps of a loop that calls `prof.step()`."""

    def __init__(self, *, activities=None, schedule=None, on_trace_ready=None, record_shapes=False, profile_memory=False,
                 with_stack=False, with_flops=False, with_modules=False, experimental_config=None,
                 execution_trace_observer=None, acc_events=False, use_cuda=None, custom_trace_id_callback=None,
                 post_processing_timeout_s=None):  # fmt: skip
        self.activities = set(activities) if activities else supported_activities()
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        self.schedule = schedule or (lambda step: ProfilerAction.RECORD)
        self.on_trace_ready = on_trace_ready
        self.record_steps = schedule is not None
        self._settings = {
            "record_shapes": record_shapes, "profile_memory": profile_memory, "with_stack": with_stack,
            "with_flops": with_flops, "with_modules": with_modules,
        }  # fmt: skip
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.step_num, self.current_action = 0, self.schedule(0)
        self.profiler, self._running, self._step_range = None, False, None
        self.preset_metadata = {}

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        self.stop()
        return False

    def start(self):
        """Begin to record."""
        self._enter_action(ProfilerAction.NONE, self.current_action)
        self._open_step()

    def stop(self):
        """Stop recording."""
        self._close_step()
        if self._running:
            self._finish(ready=True)

    def step(self):
        """Says that the next step begins."""
        self._close_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._enter_action(before, self.current_action)
        self._open_step()
        KinetoStepTracker.increment_step("ProfilerStep")

    def _enter_action(self, before, now):
        recording = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if self._running and (before is ProfilerAction.RECORD_AND_SAVE or now not in recording):
            self._finish(ready=before is ProfilerAction.RECORD_AND_SAVE)
        if now in recording and not self._running:
            self.profiler = _Recorder(**self._settings)
            self.profiler.__enter__()
            self._running = True

    def _finish(self, ready):
        self.profiler.__exit__(None, None, None)
        self._running = False
        if ready and self.on_trace_ready:
            self.on_trace_ready(self)

    def _open_step(self):
        if self.record_steps and self._running:
            self._step_range = record_function(f"ProfilerStep#{self.step_num}")
            self._step_range.__enter__()

    def _close_step(self):
        if self._step_range is not None:
            self._step_range.__exit__(None, None, None)
            self._step_range = None

    def _finished(self, wanted="events"):
        if self.profiler is None or self.profiler.function_events is None:
            raise AssertionError(f"Profiler must be initialized before getting {wanted}")
        return self.profiler.function_events

    def events(self):
        """The events recorded."""
        return self._finished()

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False):
        """Totals by operator."""
        return self._finished("key averages").key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def export_chrome_trace(self, path):
        """Writes a trace for chrome://tracing, packed if the name ends in .gz."""
        meta = {"record_shapes": int(self.record_shapes), **self.preset_metadata}
        import json

        text = json.dumps(_chrome_trace(self._finished(), meta))
        if str(path).endswith(".gz"):
            import gzip

            with gzip.open(path, "wt") as file:
                file.write(text)
        else:
            with open(path, "w") as file:
                file.write(text)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Write call stacks; none are recorded."""
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self._finished().export_stacks(path, metric)

    def export_memory_timeline(self, path, device=None):
        """Memory by kind over time is not recorded."""
        if not (self.record_shapes and self.profile_memory and self.with_stack):
            raise ValueError("record_shapes=True, profile_memory=True, with_stack=True required for memory profiling.")
        raise NotImplementedError("Flambeau's profiler records no memory events, and has no timeline of them")

    def add_metadata(self, key, value):
        """Add a string to the trace."""
        self.preset_metadata[key] = value

    def add_metadata_json(self, key, value):
        """Add a value, given as JSON, to the trace."""
        import json

        self.preset_metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    def toggle_collection_dynamic(self, enable, activities):
        pass


class ExecutionTraceObserver:
    """Writes the operators of a block into a file, in the order in which they ran."""

    def __init__(self):
        self._path, self._running = None, False

    def register_callback(self, output_file_path):
        """Name the file to write to."""
        self._path = output_file_path
        return self

    def unregister_callback(self):
        """Stop and forget the file."""
        self.stop()
        self._path = None

    def is_registered(self):
        """Whether a file is named."""
        return self._path is not None

    def get_output_file_path(self):
        """The file's path."""
        return self._path

    def start(self):
        """Begin to record."""
        if self._path and not self._running:
            self._recorder = _Recorder(record_shapes=True)
            self._recorder.__enter__()
            self._running = True

    def stop(self):
        """Stop recording."""
        if self._running:
            self._recorder.__exit__(None, None, None)
            self._running = False
            nodes = [{"id": e.id, "name": e.name, "inputs": {"shapes": e.input_shapes}} for e in
                     self._recorder.function_events]  # fmt: skip
            import json

            with open(self._path, "w") as file:
                json.dump({"schema": "1.1.1", "pid": os.getpid(), "nodes": nodes}, file)


def register_optimizer_step_post_hook(hook):
    from ..optim.optimizer import register_optimizer_step_post_hook as register

    return register(hook)


