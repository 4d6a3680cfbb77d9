"""The schedules behind `flambeau.optim.lr_scheduler`, by kind."""
