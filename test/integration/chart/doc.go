// Package chart tests the Helm charts of manifests/charts: they are linted, rendered with many
// values, and installed on a real API server by the real Helm; and the control plane, running with
// no more than the permissions of the chart, does its work, and each removed permission breaks some
// part of it.
package chart
