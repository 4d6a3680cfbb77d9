"""What programs that several processes run at once use of `torch.distributed.elastic`."""
