"""Copies of a module for several devices."""
__all__ = ["replicate"]


def replicate(network, devices, detach=False):
    """A copy of the module for each device. Gradients of the copies reach the module's own parameters, unless `detach`."""

    def moved(tensor, device):
        if tensor is None:
            return None
        return (tensor.detach() if detach else tensor).to(device)

    def copied(module, device, known):
        if module is None:
            return None
        if id(module) not in known:
            copy = known[id(module)] = module.__new__(type(module))
            copy.__dict__ = module.__dict__.copy()
            copy._parameters = {name: moved(p, device) for name, p in module._parameters.items()}
            copy._buffers = {name: b if b is None else b.to(device) for name, b in module._buffers.items()}
            copy._modules = {name: copied(child, device, known) for name, child in module._modules.items()}
        return known[id(module)]

    return [copied(network, device, {}) for device in devices]
