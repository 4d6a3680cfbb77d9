//! What is read where: the axes of a convolution, of its transpose, and how the output is cut into tiles.

use super::ConvShape;

/// One kernel position along an axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tap {
    /// Index along the kernel's axis.
    pub kernel: usize,
    /// Distance from the first source position that any tap reads.
    pub shift: usize,
    /// Which of the axis's residues it reads.
    pub residue: usize,
    /// Its place in that residue's run.
    pub place: usize,
}

/// How positions of one axis of the result gather from the source: position `i`, stored at `start + i * spacing`,
/// reads `source[low + i * step + tap.shift]` for every tap. What lies outside the source is zero.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// Number of positions.
    pub count: usize,
    /// Where the first position is stored.
    pub start: usize,
    /// Distance between stored positions.
    pub spacing: usize,
    /// Size of the source.
    pub source: usize,
    /// Distance between the source positions of neighbours.
    pub step: usize,
    /// The first source position read by position 0; may be negative.
    pub low: isize,
    /// The taps.
    pub taps: Vec<Tap>,
    /// The distinct remainders of the taps' shifts by `step`. A run that keeps every `step`-th source position turns
    /// the axis into one of step 1: tap t of position i reads place `i + t.place` of the run of its residue.
    pub residues: Vec<usize>,
    /// The largest place.
    pub reach: usize,
    /// The largest shift.
    pub span: usize,
}

impl Axis {
    fn new(count: usize, start: usize, spacing: usize, source: usize, step: usize, taps: &[(usize, isize)]) -> Axis {
        let low = taps.iter().map(|t| t.1).min().unwrap_or(0);
        let mut residues: Vec<usize> = taps.iter().map(|t| (t.1 - low) as usize % step).collect();
        residues.sort_unstable();
        residues.dedup();
        let taps: Vec<Tap> = taps
            .iter()
            .map(|&(kernel, offset)| {
                let shift = (offset - low) as usize;
                let residue = residues.iter().position(|&r| r == shift % step).unwrap_or(0);
                Tap { kernel, shift, residue, place: shift / step }
            })
            .collect();
        let reach = taps.iter().map(|t| t.place).max().unwrap_or(0);
        let span = taps.iter().map(|t| t.shift).max().unwrap_or(0);
        Axis { count, start, spacing, source, step, low, taps, residues, reach, span }
    }

    /// Axis `a` of the convolution itself.
    pub(crate) fn forward(s: &ConvShape, a: usize) -> Axis {
        let taps: Vec<_> =
            (0..s.kernel[a]).map(|k| (k, (k * s.dilation[a]) as isize - s.padding[a] as isize)).collect();
        Axis::new(s.output[a], 0, 1, s.input[a], s.stride[a], &taps)
    }

    /// Axis `a` of the transpose. Input positions with the same remainder by the stride are hit by the same taps, at
    /// neighbouring output positions: each remainder is a gather of step 1.
    pub(crate) fn backward(s: &ConvShape, a: usize) -> Vec<Axis> {
        let stride = s.stride[a];
        (0..stride.min(s.input[a]))
            .map(|remainder| {
                let taps: Vec<_> = (0..s.kernel[a])
                    .filter_map(|k| {
                        let distance = (remainder + s.padding[a]) as isize - (k * s.dilation[a]) as isize;
                        (distance.rem_euclid(stride as isize) == 0).then_some((k, distance.div_euclid(stride as isize)))
                    })
                    .collect();
                let count = (s.input[a] - remainder).div_ceil(stride);
                Axis::new(count, remainder, stride, s.output[a], 1, &taps)
            })
            .collect()
    }

    /// Whether no position reads outside the source.
    pub(crate) fn inside(&self) -> bool {
        self.low >= 0 && self.low as usize + self.count.saturating_sub(1) * self.step + self.span < self.source
    }

    /// The range of `i` in `0..len` for which `first + i * step` lies in the source.
    pub(crate) fn valid(&self, first: isize, step: usize, len: usize) -> (usize, usize) {
        let begin = if first >= 0 { 0 } else { first.unsigned_abs().div_ceil(step) };
        let end = if first >= self.source as isize {
            0
        } else {
            ((self.source as isize - first) as usize).div_ceil(step).min(len)
        };
        (begin.min(end), end)
    }
}

/// A gather: every position of a result's grid is a weighted sum over source channels and taps.
pub(crate) struct Gather {
    /// Images.
    pub batch: usize,
    /// Groups.
    pub groups: usize,
    /// Source channels of a group: what is summed over.
    pub source_channels: usize,
    /// Result channels of a group.
    pub result_channels: usize,
    /// The axes.
    pub axes: [Axis; 3],
    /// The result's whole sizes.
    pub result: [usize; 3],
    /// Distance in the weight between result channels.
    pub weight_result_stride: usize,
    /// Distance in the weight between source channels.
    pub weight_source_stride: usize,
    /// Distance in the weight between taps.
    pub weight_tap_stride: usize,
    /// Distance in the weight between groups.
    pub weight_group_stride: usize,
    /// Indices of the taps in the kernel, and the taps by axis, for every combination.
    pub taps: Vec<(usize, [Tap; 3])>,
}

impl Gather {
    fn new(s: &ConvShape, axes: [Axis; 3], transposed: bool) -> Gather {
        let mut taps = Vec::new();
        for &d in &axes[0].taps {
            for &h in &axes[1].taps {
                for &w in &axes[2].taps {
                    taps.push(((d.kernel * s.kernel[1] + h.kernel) * s.kernel[2] + w.kernel, [d, h, w]));
                }
            }
        }
        let size: usize = s.kernel.iter().product();
        let (inputs, outputs) = (s.in_channels / s.groups, s.out_channels / s.groups);
        // Of input channels, output channels and taps.
        let strides = match s.weight_last {
            false => (size, inputs * size, 1),
            true => (1, inputs * size, inputs),
        };
        Gather {
            batch: s.batch,
            groups: s.groups,
            source_channels: if transposed { outputs } else { inputs },
            result_channels: if transposed { inputs } else { outputs },
            axes,
            result: if transposed { s.input } else { s.output },
            weight_result_stride: if transposed { strides.0 } else { strides.1 },
            weight_source_stride: if transposed { strides.1 } else { strides.0 },
            weight_tap_stride: strides.2,
            weight_group_stride: inputs * outputs * size,
            taps,
        }
    }

    /// The convolution.
    pub(crate) fn forward(s: &ConvShape) -> Gather {
        Gather::new(s, std::array::from_fn(|a| Axis::forward(s, a)), false)
    }

    /// Its transpose, one gather for every remainder by the strides.
    pub(crate) fn backward(s: &ConvShape) -> Vec<Gather> {
        let [depths, heights, widths] = std::array::from_fn(|a| Axis::backward(s, a));
        let mut gathers = Vec::new();
        for d in &depths {
            for h in &heights {
                for w in &widths {
                    gathers.push(Gather::new(s, [d.clone(), h.clone(), w.clone()], true));
                }
            }
        }
        gathers
    }

    /// Where the factors of every sum stand in a row of the weight: channel by channel, and tap by tap.
    pub(crate) fn weight_offsets(&self) -> Vec<usize> {
        // (A loop: such an iterator does not know how many it gives, and the vector would grow step by step.)
        let mut offsets = Vec::with_capacity(self.depth());
        for c in 0..self.source_channels {
            let first = c * self.weight_source_stride;
            offsets.extend(self.taps.iter().map(|t| first + t.0 * self.weight_tap_stride));
        }
        offsets
    }

    /// Terms of every sum.
    pub(crate) fn depth(&self) -> usize {
        self.source_channels * self.taps.len()
    }

    /// Positions of an image.
    pub(crate) fn positions(&self) -> usize {
        self.axes.iter().map(|a| a.count).product()
    }

    /// Positions of an image's source.
    pub(crate) fn source_positions(&self) -> usize {
        self.axes.iter().map(|a| a.source).product()
    }

    /// Positions of an image's whole result.
    pub(crate) fn result_positions(&self) -> usize {
        self.result.iter().product()
    }
}

/// How a grid of positions is cut: whole images, or slices of one image that are contiguous in its position order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tiling {
    /// Images of a tile; more than one only when a tile holds whole images.
    pub images: usize,
    /// Positions of a tile along each axis.
    pub size: [usize; 3],
    /// Number of tiles over the batch and along each axis.
    pub counts: [usize; 4],
}

/// One tile: its first image, number of images, and range along each axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileRange {
    /// First image.
    pub image: usize,
    /// Number of images.
    pub images: usize,
    /// First position along each axis.
    pub first: [usize; 3],
    /// Positions along each axis.
    pub size: [usize; 3],
}

impl Tiling {
    /// Tiles of about `target` positions.
    pub(crate) fn new(batch: usize, axes: &[Axis; 3], target: usize) -> Tiling {
        let [d, h, w] = [axes[0].count.max(1), axes[1].count.max(1), axes[2].count.max(1)];
        let even = |n: usize, most: usize| n.div_ceil(n.div_ceil(most.max(1)));
        let mut images = 1;
        let mut size = [d, h, w];
        if d * h * w <= target {
            images = even(batch.max(1), target / (d * h * w));
        } else if h * w <= target {
            size[0] = even(d, target / (h * w));
        } else {
            size[0] = 1;
            if w <= 2 * target {
                size[1] = even(h, target / w);
            } else {
                size[1] = 1;
                size[2] = even(w, target);
            }
        }
        let counts = [
            batch.div_ceil(images),
            axes[0].count.div_ceil(size[0]),
            axes[1].count.div_ceil(size[1]),
            axes[2].count.div_ceil(size[2]),
        ];
        Tiling { images, size, counts }
    }

    /// Number of tiles.
    pub(crate) fn len(&self) -> usize {
        self.counts.iter().product()
    }

    /// Positions of a full tile.
    pub(crate) fn positions(&self) -> usize {
        self.images * self.size.iter().product::<usize>()
    }

    /// Tile number `i`.
    pub(crate) fn get(&self, i: usize, batch: usize, axes: &[Axis; 3]) -> TileRange {
        let w = i % self.counts[3];
        let h = i / self.counts[3] % self.counts[2];
        let d = i / (self.counts[3] * self.counts[2]) % self.counts[1];
        let n = i / (self.counts[3] * self.counts[2] * self.counts[1]);
        let first = [d * self.size[0], h * self.size[1], w * self.size[2]];
        let image = n * self.images;
        TileRange {
            image,
            images: self.images.min(batch - image),
            first,
            size: std::array::from_fn(|a| self.size[a].min(axes[a].count - first[a])),
        }
    }
}

/// For every position of an axis, which of the ranges of taps it has in the source.
pub(crate) struct Classes {
    /// The ranges: empty ones begin at the largest number and end at zero.
    pub ranges: Vec<(usize, usize)>,
    /// For every position, an index of `ranges`.
    pub of: Vec<usize>,
}

impl Classes {
    /// Those of an axis.
    pub(crate) fn new(axis: &Axis) -> Classes {
        let (mut ranges, mut of) = (Vec::new(), Vec::with_capacity(axis.count));
        for i in 0..axis.count {
            let first = axis.low + (i * axis.step) as isize;
            let inside = |t: &Tap| (0..axis.source as isize).contains(&(first + t.shift as isize));
            // Shifts rise or fall from tap to tap, so that those inside are neighbours.
            let begin = axis.taps.iter().position(inside).unwrap_or(usize::MAX);
            let end = axis.taps.iter().rposition(inside).map_or(0, |t| t + 1);
            let class = ranges.iter().position(|&r| r == (begin, end)).unwrap_or(ranges.len());
            if class == ranges.len() {
                ranges.push((begin, end));
            }
            of.push(class);
        }
        Classes { ranges, of }
    }
}

/// The tiles that differ: in size, or in the taps that their positions have in the source.
pub(crate) struct Kinds {
    /// What positions have.
    pub classes: [Classes; 3],
    /// A tile of each kind.
    pub tiles: Vec<TileRange>,
    /// The kind of each tile of the first images, and of the last.
    of: Vec<usize>,
    count: usize,
}

impl Kinds {
    /// The kinds of a tiling's tiles.
    pub(crate) fn new(tiling: &Tiling, batch: usize, axes: &[Axis; 3]) -> Kinds {
        let classes: [Classes; 3] = std::array::from_fn(|a| Classes::new(&axes[a]));
        let (mut tiles, mut of) = (Vec::<TileRange>::new(), Vec::new());
        let count = tiling.len();
        let each = count / tiling.counts[0];
        // The last images may be fewer than the first.
        for i in (0..each).chain(count - each..count) {
            let tile = tiling.get(i, batch, axes);
            let of_tile = |t: &TileRange, a: usize| t.first[a]..t.first[a] + t.size[a];
            let alike = |t: &TileRange| {
                t.images == tile.images
                    && (0..3).all(|a| classes[a].of[of_tile(t, a)] == classes[a].of[of_tile(&tile, a)])
            };
            of.push(tiles.iter().position(alike).unwrap_or(tiles.len()));
            if of.last() == Some(&tiles.len()) {
                tiles.push(tile);
            }
        }
        Kinds { classes, tiles, of, count }
    }

    /// Whether hardly a position is left over when those of every tile that have the same taps are computed four or more
    /// at a time.
    pub(crate) fn suit_tiles(&self) -> bool {
        self.tiles.iter().all(|tile| {
            let counts: [Vec<usize>; 3] = std::array::from_fn(|a| {
                let mut counts = vec![0; self.classes[a].ranges.len()];
                for i in 0..tile.size[a] {
                    counts[self.classes[a].of[tile.first[a] + i]] += 1;
                }
                counts
            });
            let (mut left, mut all) = (0, 0);
            for d in &counts[0] {
                for h in &counts[1] {
                    for w in &counts[2] {
                        let positions = tile.images * d * h * w;
                        (left, all) = (left + positions % 4, all + positions);
                    }
                }
            }
            16 * left <= all
        })
    }

    /// The kind of tile number `i`.
    pub(crate) fn of(&self, i: usize) -> usize {
        let each = self.of.len() / 2;
        self.of[i % each + if i + each >= self.count { each } else { 0 }]
    }
}
