"""Stage bodies, one file a stage: a `Job` in, an `Outcome` out. The order stands in `curate.STAGES`."""
