//! CPU kernels: numbers in, numbers out. No tensors, no dispatch.
