"""What the verification ladder asks and of whom: pure; roles carry it to hosts, `slipway.agent.verify` climbs it."""
