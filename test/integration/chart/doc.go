// Package chart tests the Helm charts of manifests/charts: they are linted, rendered with many values, and installed on a real
// API server by the real Helm; and the control plane, running with no more than the permissions that the chart gives it, does its
// work, of which something breaks with each permission that is taken away.
package chart
