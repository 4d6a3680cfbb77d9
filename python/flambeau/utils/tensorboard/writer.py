"""`SummaryWriter`: writes event files for TensorBoard."""
from __future__ import annotations

import os
import socket
import threading
import time

import flambeau as _fl

from . import summary as _s
from ._record import BYTES, DOUBLE, INT, message, record

__all__ = ["FileWriter", "SummaryWriter"]

_counter_lock = threading.Lock()
_counter = 0


class FileWriter:
    """Appends events to one file of a folder, at the latest every `flush_secs` seconds."""

    def __init__(self, log_dir, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = "") -> None:
        global _counter
        self.log_dir = str(log_dir)
        os.makedirs(self.log_dir, exist_ok=True)
        with _counter_lock:
            number, _counter = _counter, _counter + 1
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{number}{filename_suffix}"
        self.path = os.path.join(self.log_dir, name)
        self.max_queue, self.flush_secs = max_queue, flush_secs
        self._lock = threading.Lock()
        self._file = open(self.path, "wb")
        self._flushed = time.time()
        self._write(message((1, DOUBLE, time.time()), (3, BYTES, "brain.Event:2")))
        self.flush()

    def get_logdir(self) -> str:
        """The folder of the file."""
        return self.log_dir

    def _write(self, event: bytes) -> None:
        data = record(event)
        with self._lock:
            if self._file is None:
                self._file = open(self.path, "ab")
            self._file.write(data)
            now = time.time()
            if now - self._flushed >= self.flush_secs:
                self._file.flush()
                self._flushed = now

    def add_event(self, event: bytes, step=None, walltime=None) -> None:
        """Append the fields of an event; time and step are put before them."""
        step = None if step is None else int(step)
        self._write(message((1, DOUBLE, time.time() if walltime is None else walltime), (2, INT, step)) + event)

    def add_summary(self, summary: bytes, global_step=None, walltime=None) -> None:
        """Append a summary."""
        self.add_event(message((5, BYTES, summary)), global_step, walltime)

    def add_graph(self, graph: bytes, walltime=None) -> None:
        """Append a graph."""
        self.add_event(message((4, BYTES, graph)), None, walltime)

    def flush(self) -> None:
        """Write everything to the file now."""
        with self._lock:
            if self._file is not None:
                self._file.flush()

    def close(self) -> None:
        """Write everything and close the file; a later event opens it again."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def reopen(self) -> None:
        """Open the file again after `close`."""
        with self._lock:
            if self._file is None:
                self._file = open(self.path, "ab")


class SummaryWriter:
    """Writes what a training run does to event files in `log_dir` (default: a new folder under ``runs``)."""

    def __init__(self, log_dir=None, comment: str = "", purge_step=None, max_queue: int = 10, flush_secs: int = 120,
                 filename_suffix: str = "") -> None:
        self.log_dir = log_dir or os.path.join("runs", f"{time.strftime('%b%d_%H-%M-%S')}_{socket.gethostname()}{comment}")
        self.purge_step, self.filename_suffix = purge_step, filename_suffix
        self.max_queue, self.flush_secs = max_queue, flush_secs
        self.file_writer = self.all_writers = None
        self._get_file_writer()
        self.default_bins = _s.default_bins()

    def _get_file_writer(self) -> FileWriter:
        if self.all_writers is None or self.file_writer is None:
            writer = self.file_writer = FileWriter(self.log_dir, self.max_queue, self.flush_secs, self.filename_suffix)
            self.all_writers = {writer.get_logdir(): writer}
            if self.purge_step is not None:
                self.file_writer.add_event(message((7, BYTES, message((1, INT, 1)))), self.purge_step)
                self.purge_step = None
        return self.file_writer

    def get_logdir(self) -> str:
        """The folder of the event files."""
        return self.log_dir

    def _add(self, summary: bytes, step, walltime) -> None:
        self._get_file_writer().add_summary(summary, step, walltime)

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False,
                   double_precision=False) -> None:
        """One number."""
        self._add(_s.scalar(tag, scalar_value, new_style, double_precision), global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None) -> None:
        """Several numbers for one chart, each as a run of its own."""
        walltime = time.time() if walltime is None else walltime
        folder = self._get_file_writer().get_logdir()
        for tag, value in tag_scalar_dict.items():
            path = os.path.join(folder, main_tag.replace("/", "_") + "_" + tag)
            if path not in self.all_writers:
                self.all_writers[path] = FileWriter(path, self.max_queue, self.flush_secs, self.filename_suffix)
            self.all_writers[path].add_summary(_s.scalar(main_tag, value), global_step, walltime)

    def add_tensor(self, tag, tensor, global_step=None, walltime=None) -> None:
        """A tensor as it is."""
        self._add(_s.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None) -> None:
        """How values are distributed."""
        self._add(_s.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(self, tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts, global_step=None,
                          walltime=None) -> None:
        """A histogram made elsewhere."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        self._add(_s.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts), global_step,
                  walltime)

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW") -> None:
        """One image."""
        self._add(_s.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW") -> None:
        """Several images as a grid."""
        self._add(_s.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_image_with_boxes(self, tag, img_tensor, box_tensor, global_step=None, walltime=None, rescale=1,
                             dataformats="CHW", labels=None) -> None:
        """One image with boxes (x0, y0, x1, y1) drawn on it."""
        if labels is not None:
            labels = [labels] if isinstance(labels, str) else labels
            if len(labels) != _s.as_tensor(box_tensor).shape[0]:
                labels = None
        self._add(_s.image(tag, img_tensor, rescale, dataformats, box_tensor, labels), global_step, walltime)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None) -> None:
        """One or several figures of matplotlib."""
        several = isinstance(figure, list)
        images = [self._render(f, close) for f in (figure if several else [figure])]
        if several:
            self.add_images(tag, _fl.stack(images), global_step, walltime, dataformats="NCHW")
        else:
            self.add_image(tag, images[0], global_step, walltime, dataformats="CHW")

    @staticmethod
    def _render(figure, close: bool):
        import matplotlib.backends.backend_agg as agg

        canvas = agg.FigureCanvasAgg(figure)
        canvas.draw()
        width, height = canvas.get_width_height()
        pixels = _fl.frombuffer(bytearray(canvas.buffer_rgba()), dtype=_fl.uint8).view(height, width, 4)
        if close:
            import matplotlib.pyplot as plt

            plt.close(figure)
        return pixels[:, :, :3].permute(2, 0, 1)

    def add_video(self, tag, vid_tensor, global_step=None, fps=4, walltime=None) -> None:
        """A film ``[N, T, C, H, W]`` as an animated GIF; needs the package Pillow."""
        try:
            from PIL import Image
        except ImportError:
            print("add_video needs package moviepy")
            return
        import io

        video = _s.as_tensor(vid_tensor)
        frames = [_s._pixels(_s.make_grid(video[:, t])).permute(1, 2, 0).contiguous() for t in range(video.shape[1])]
        height, width, channels = frames[0].shape
        images = [Image.frombytes("RGB", (width, height), bytes(f.reshape(-1).tolist())) for f in frames]
        out = io.BytesIO()
        images[0].save(out, "GIF", save_all=True, append_images=images[1:], duration=1000 // fps, loop=0)
        self._add(_s.image_raw(tag, out.getvalue(), height, width, channels), global_step, walltime)

    def add_audio(self, tag, snd_tensor, global_step=None, sample_rate=44100, walltime=None) -> None:
        """A sound with values from -1 to 1."""
        self._add(_s.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag, text_string, global_step=None, walltime=None) -> None:
        """A text in Markdown."""
        self._add(_s.text(tag, text_string), global_step, walltime)

    def add_pr_curve(self, tag, labels, predictions, global_step=None, num_thresholds=127, weights=None,
                     walltime=None) -> None:
        """Precision and recall."""
        self._add(_s.pr_curve(tag, labels, predictions, num_thresholds, weights), global_step, walltime)

    def add_pr_curve_raw(self, tag, true_positive_counts, false_positive_counts, true_negative_counts,
                         false_negative_counts, precision, recall, global_step=None, num_thresholds=127, weights=None,
                         walltime=None) -> None:
        """A precision-recall curve made elsewhere."""
        self._add(_s.pr_curve_raw(tag, true_positive_counts, false_positive_counts, true_negative_counts,
                                  false_negative_counts, precision, recall, num_thresholds, weights), global_step, walltime)

    def add_custom_scalars_multilinechart(self, tags, category="default", title="untitled") -> None:
        """Several scalars in one chart."""
        self._add(_s.custom_scalars({category: {title: ["Multiline", tags]}}), None, None)

    def add_custom_scalars_marginchart(self, tags, category="default", title="untitled") -> None:
        """A scalar with its margin in one chart."""
        assert len(tags) == 3
        self._add(_s.custom_scalars({category: {title: ["Margin", tags]}}), None, None)

    def add_custom_scalars(self, layout) -> None:
        """Charts put together as ``{category: {title: ["Multiline" or "Margin", tags]}}``."""
        self._add(_s.custom_scalars(layout), None, None)

    def add_mesh(self, tag, vertices, colors=None, faces=None, config_dict=None, global_step=None, walltime=None) -> None:
        """Points ``[B, N, 3]`` with colours and faces."""
        self._add(_s.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None,
                    global_step=None) -> None:
        """The hyperparameters of a run and what came of them, as a run of its own."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        summaries = _s.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        with SummaryWriter(log_dir=folder) as writer:
            for summary in summaries:
                writer.file_writer.add_summary(summary, global_step)
            for key, value in metric_dict.items():
                writer.add_scalar(key, value, global_step)

    def add_graph(self, model, input_to_model=None, verbose=False, use_strict_trace=True) -> None:
        """The modules of a model, in the order in which an example runs through them."""
        from .graph import module_graph

        self._get_file_writer().add_graph(module_graph(model, input_to_model, verbose))

    def add_onnx_graph(self, prototxt) -> None:
        """A graph from an ONNX file; needs the package onnx."""
        import onnx

        from .graph import encode_nodes

        graph = onnx.load(prototxt).graph
        nodes = [(v.name, "Placeholder", []) for v in graph.input]
        nodes += [("/".join(n.output), n.op_type, list(n.input)) for n in graph.node]
        self._get_file_writer().add_graph(encode_nodes(nodes))

    @staticmethod
    def _encode(rawstr: str) -> str:
        return "".join(c if c.isalnum() or c in "_-" else f"%{ord(c):02x}" for c in rawstr)

    def add_embedding(self, mat, metadata=None, label_img=None, global_step=None, tag="default",
                      metadata_header=None) -> None:
        """Points ``[N, D]`` with labels and small images for the projector."""
        from .embedding import write_embedding

        write_embedding(self._get_file_writer().get_logdir(), _s.as_tensor(mat), metadata, label_img,
                        0 if global_step is None else global_step, self._encode(tag), tag, metadata_header)

    def flush(self) -> None:
        """Write everything to the files now."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Write everything and close the files."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> "SummaryWriter":
        return self

    def __exit__(self, *exc) -> None:
        self.close()
