// Package test groups the tests that need more than one package:
//
//	architecture  which package may import which, hazards in the sources, statements in documents
//	conformance   the output is right: every API field, random objects, two judges, older and foreign peers
//	integration   real programs, Envoys, machines and clusters, feature by feature
//	resilience    faults, attacks and load while requests run; the scorecard of all of these
//	perf          the control plane measured with a fleet of simulated proxies
//	support       what tests are made of
//
// docs/TESTING.md explains how they are run.
package test
