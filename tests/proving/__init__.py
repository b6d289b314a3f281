"""What the reliability checks share: model, fsck, faults, races, kills, mutants."""
