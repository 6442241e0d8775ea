//! Scenarios, sweeps, calibration and prediction for the switching-network simulator.
