// Package environment parses the environment variables that pod templates, cluster.env files and
// users set for the agent.
//
// [Parse] turns the process's variables, with proxyMetadata as defaults, into an [Environment]. It
// reads nothing but its arguments.
//
// Invariants: an invalid value is an error that names the variable. A variable of an unsupported
// feature is an error if the workload would break without the feature, and a warning otherwise.
//
// Start with [Parse] in environment.go. metadata.go has the ISTIO_META_ variables.
package environment
