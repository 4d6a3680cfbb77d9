//! Layouts and memory formats.

use std::fmt;

/// How a tensor's elements are stored. Only `Strided` has sizes and strides over one flat storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Layout {
    /// Strides over one flat storage.
    Strided = 0,
    /// Coordinate lists.
    SparseCoo = 1,
    /// Compressed rows.
    SparseCsr = 2,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layout::Strided => "torch.strided",
            Layout::SparseCoo => "torch.sparse_coo",
            Layout::SparseCsr => "torch.sparse_csr",
        })
    }
}

/// The order in which a dense tensor's dimensions lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MemoryFormat {
    /// Row-major: the last dimension is densest.
    Contiguous = 0,
    /// Keep the input's order if it is dense, else row-major.
    Preserve = 1,
    /// N, H, W, C in memory for a tensor of sizes (N, C, H, W).
    ChannelsLast = 2,
    /// N, D, H, W, C in memory for a tensor of sizes (N, C, D, H, W).
    ChannelsLast3d = 3,
}

impl fmt::Display for MemoryFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemoryFormat::Contiguous => "torch.contiguous_format",
            MemoryFormat::Preserve => "torch.preserve_format",
            MemoryFormat::ChannelsLast => "torch.channels_last",
            MemoryFormat::ChannelsLast3d => "torch.channels_last_3d",
        })
    }
}
