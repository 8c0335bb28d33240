"""Configuration: YAML files in, one validated, typed, frozen `Deployment` out."""
