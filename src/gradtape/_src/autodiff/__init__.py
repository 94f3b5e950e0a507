"""Derivatives: tapes, Jacobians, custom gradients."""
